// The functions of UCX that the data channel calls. Each finds its namesake in the library at its first call and passes
// the call on. If it were linked like others, the library would be set up in every process and watch every allocation
// there, though only workers that exchange data with other hosts use it.
#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <string>
#include <type_traits>

namespace {

// The loaded library, or the reason why there is none. It stays: it has threads and hooks of its own.
struct Library {
  void* handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  std::string error = handle == nullptr ? dlerror() : "it lacks a function that we call";
};

const Library& Ucx() {
  static const Library* const library = new Library;
  return *library;
}

// Of calls that nobody makes where ucp_config_read, the first, has failed.
template <typename Result>
Result Failed() {
  if constexpr (std::is_same_v<Result, ucs_status_t>) return UCS_ERR_UNSUPPORTED;
  if constexpr (std::is_same_v<Result, ucs_status_ptr_t>) return UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED);
  if constexpr (std::is_same_v<Result, unsigned>) return 0;
}

template <typename Result, typename... Parameters>
auto Find(const char* name, Result (*)(Parameters...)) {
  void* const found = Ucx().handle == nullptr ? nullptr : dlsym(Ucx().handle, name);
  return reinterpret_cast<Result (*)(Parameters...)>(found);
}

}  // namespace

#define OF_PASS_ON(Result, function, parameters, ...)      \
  Result function parameters {                             \
    static auto* const found = Find(#function, &function); \
    if (found == nullptr) return Failed<Result>();         \
    return (*found)(__VA_ARGS__);                          \
  }

extern "C" {

OF_PASS_ON(ucs_status_t, ucp_config_read, (const char* prefix, const char* file, ucp_config_t** config), prefix, file,
           config)
OF_PASS_ON(ucs_status_t, ucp_config_modify, (ucp_config_t * config, const char* name, const char* value), config, name,
           value)
OF_PASS_ON(void, ucp_config_release, (ucp_config_t * config), config)
OF_PASS_ON(ucs_status_t, ucp_init_version,
           (unsigned major, unsigned minor, const ucp_params_t* params, const ucp_config_t* config,
            ucp_context_h* context),
           major, minor, params, config, context)
OF_PASS_ON(void, ucp_cleanup, (ucp_context_h context), context)
OF_PASS_ON(ucs_status_t, ucp_worker_create,
           (ucp_context_h context, const ucp_worker_params_t* params, ucp_worker_h* worker), context, params, worker)
OF_PASS_ON(void, ucp_worker_destroy, (ucp_worker_h worker), worker)
OF_PASS_ON(ucs_status_t, ucp_worker_get_address, (ucp_worker_h worker, ucp_address_t** address, size_t* length), worker,
           address, length)
OF_PASS_ON(void, ucp_worker_release_address, (ucp_worker_h worker, ucp_address_t* address), worker, address)
OF_PASS_ON(ucs_status_t, ucp_worker_get_efd, (ucp_worker_h worker, int* fd), worker, fd)
OF_PASS_ON(ucs_status_t, ucp_worker_arm, (ucp_worker_h worker), worker)
OF_PASS_ON(unsigned, ucp_worker_progress, (ucp_worker_h worker), worker)
OF_PASS_ON(ucs_status_t, ucp_worker_set_am_recv_handler, (ucp_worker_h worker, const ucp_am_handler_param_t* param),
           worker, param)
OF_PASS_ON(ucs_status_t, ucp_ep_create, (ucp_worker_h worker, const ucp_ep_params_t* params, ucp_ep_h* endpoint),
           worker, params, endpoint)
OF_PASS_ON(ucs_status_ptr_t, ucp_ep_close_nbx, (ucp_ep_h endpoint, const ucp_request_param_t* param), endpoint, param)
OF_PASS_ON(ucs_status_ptr_t, ucp_am_send_nbx,
           (ucp_ep_h endpoint, unsigned id, const void* header, size_t header_length, const void* buffer, size_t count,
            const ucp_request_param_t* param),
           endpoint, id, header, header_length, buffer, count, param)
OF_PASS_ON(ucs_status_t, ucp_request_check_status, (void* request), request)
OF_PASS_ON(void, ucp_request_free, (void* request), request)

const char* ucs_status_string(ucs_status_t status) {
  static auto* const found = Find("ucs_status_string", &ucs_status_string);
  return found == nullptr ? Ucx().error.c_str() : found(status);
}

}  // extern "C"

#undef OF_PASS_ON
