#include "test/tools/support/strange_server.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "glog/logging.h"

namespace oneflow::testing {
namespace {

constexpr long kOneDay = 86400;

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

template <typename Write>
std::string PemBy(const Write& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
  CHECK_EQ(write(bio.get()), 1);
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, length);
}

void AddExtension(X509* certificate, X509* issuer, int which, const char* text) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, which, text);
  CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1) << text;
  X509_EXTENSION_free(extension);
}

}  // namespace

TlsIdentity MakeStrangeServer(const std::string& folder) {
  const std::string authority = Read(folder + "/ca/ca.pem"), authority_key = Read(folder + "/ca/key.pem");
  BIO* const authority_bio = BIO_new_mem_buf(authority.data(), static_cast<int>(authority.size()));
  BIO* const key_bio = BIO_new_mem_buf(authority_key.data(), static_cast<int>(authority_key.size()));
  X509* const issuer = PEM_read_bio_X509(authority_bio, nullptr, nullptr, nullptr);
  EVP_PKEY* const signer = PEM_read_bio_PrivateKey(key_bio, nullptr, nullptr, nullptr);
  CHECK(issuer != nullptr && signer != nullptr) << folder;

  X509* const certificate = X509_new();
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 4711);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>("somebody's server"), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  X509_set_pubkey(certificate, key);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kOneDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate), kOneDay);
  AddExtension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  AddExtension(certificate, issuer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  CHECK_GT(X509_sign(certificate, signer, EVP_sha256()), 0);

  const TlsIdentity identity = {.authority = authority,
                                .certificate = PemBy([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); }),
                                .key = PemBy([&](BIO* bio) {
                                  return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
                                })};
  EVP_PKEY_free(key);
  X509_free(certificate);
  EVP_PKEY_free(signer);
  X509_free(issuer);
  BIO_free(key_bio);
  BIO_free(authority_bio);
  return identity;
}

}  // namespace oneflow::testing
