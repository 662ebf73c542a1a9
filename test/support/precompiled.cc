// Carries the precompiled headers of the tests (test/CMakeLists.txt).
