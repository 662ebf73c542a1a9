#include "tools/control/security/certificates.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "tools/control/security/private_file.h"

namespace oneflow {
namespace {

template <auto kFree>
struct FreeBy {
  template <typename T>
  void operator()(T* thing) const {
    kFree(thing);
  }
};
using X509Ptr = std::unique_ptr<X509, FreeBy<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using StorePtr = std::unique_ptr<X509_STORE, FreeBy<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, FreeBy<X509_STORE_CTX_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, FreeBy<X509_EXTENSION_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, FreeBy<BN_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, FreeBy<GENERAL_NAMES_free>>;

constexpr int kAuthorityDays = 3650;
constexpr absl::Duration kEarlier = absl::Hours(1);  // certificates begin so long ago: clocks differ
constexpr int kSerialBits = 127;                     // at random, so that no two are alike

absl::Status SslError(absl::string_view doing) {
  char text[256] = "no reason is given";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("cannot ", doing, ": ", text));
}

// --- text ---

std::string TextOf(BIO& bio) {
  char* text = nullptr;
  const long length = BIO_get_mem_data(&bio, &text);
  return std::string(text, length);
}

BioPtr BioOf(absl::string_view text) { return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

X509Ptr ParseCertificate(absl::string_view pem) {
  return X509Ptr(PEM_read_bio_X509(BioOf(pem).get(), nullptr, nullptr, nullptr));
}
// Without asking for a password on a terminal.
KeyPtr ParseKey(absl::string_view pem) {
  return KeyPtr(PEM_read_bio_PrivateKey(
      BioOf(pem).get(), nullptr, +[](char*, int, int, void*) { return -1; }, nullptr));
}

std::string PemOf(X509& certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), &certificate);
  return TextOf(*bio);
}
std::string PemOf(EVP_PKEY& key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
  return TextOf(*bio);
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? absl::FromTimeT(timegm(&parts)) : absl::InfinitePast();
}
std::string DayOf(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone()); }

// --- names ---

std::string NameText(const GENERAL_NAME& name) {
  if (name.type == GEN_IPADD) {
    char text[INET6_ADDRSTRLEN] = {};
    const int family = ASN1_STRING_length(name.d.iPAddress) == 4 ? AF_INET : AF_INET6;
    inet_ntop(family, ASN1_STRING_get0_data(name.d.iPAddress), text, sizeof(text));
    return text;
  }
  if (name.type != GEN_DNS && name.type != GEN_URI) return "";
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name.d.ia5)), ASN1_STRING_length(name.d.ia5));
}

std::vector<std::string> NamesOf(const X509& certificate) {
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> texts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    texts.push_back(NameText(*sk_GENERAL_NAME_value(names.get(), i)));
  }
  return texts;
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

absl::Status CheckHost(const std::string& host) {
  const bool is_name = !host.empty() && host.size() < 254 && std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '*';
  });
  if (is_name || IsAddress(host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", host, "' is neither a host's name nor an address"));
}

// As OpenSSL's configuration spells them.
std::string AltNames(Holder holder, const std::vector<std::string>& hosts) {
  std::vector<std::string> names = {absl::StrCat("URI:", UriOf(holder))};
  for (const std::string& host : hosts) names.push_back(absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host));
  return absl::StrJoin(names, ",");
}

std::vector<std::string> WithOwnNames(std::vector<std::string> hosts) {
  char own[256] = {};
  gethostname(own, sizeof(own) - 1);
  for (const std::string& name : std::vector<std::string>{own, "localhost", "127.0.0.1", "::1"}) {
    if (CheckHost(name).ok() && std::find(hosts.begin(), hosts.end(), name) == hosts.end()) hosts.push_back(name);
  }
  return hosts;
}

// --- making ---

struct Signed {
  X509Ptr certificate;
  KeyPtr key;
};
using Extensions = std::vector<std::pair<int, std::string>>;  // OpenSSL's number and text of each

absl::Status AddExtensions(X509& certificate, X509& issuer, const Extensions& extensions) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  for (const auto& [number, text] : extensions) {
    const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, number, text.c_str()));
    if (extension == nullptr || X509_add_ext(&certificate, extension.get(), -1) != 1) {
      return SslError(absl::StrCat("put '", text, "' into a certificate"));
    }
  }
  return absl::OkStatus();
}

absl::Status SetSerial(X509& certificate) {
  const NumberPtr number(BN_new());
  const bool set = BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
                   BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr;
  return set ? absl::OkStatus() : SslError("number a certificate");
}

// `issuer`: null for one that signs itself.
absl::StatusOr<Signed> Sign(const std::string& subject, int days, const Signed* issuer, const Extensions& extensions) {
  Signed made{X509Ptr(X509_new()), KeyPtr(EVP_EC_gen("P-256"))};
  if (made.certificate == nullptr || made.key == nullptr) return SslError("make a key");
  X509& certificate = *made.certificate;
  X509& parent = issuer == nullptr ? certificate : *issuer->certificate;
  EVP_PKEY& signer = issuer == nullptr ? *made.key : *issuer->key;
  OF_RETURN_IF_ERROR(SetSerial(certificate));
  X509_NAME* const name = X509_get_subject_name(&certificate);
  const auto* const text = reinterpret_cast<const unsigned char*>(subject.c_str());
  const bool set = X509_set_version(&certificate, X509_VERSION_3) == 1 &&
                   X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, text, -1, -1, 0) == 1 &&
                   X509_set_issuer_name(&certificate, X509_get_subject_name(&parent)) == 1 &&
                   X509_set_pubkey(&certificate, made.key.get()) == 1 &&
                   X509_gmtime_adj(X509_getm_notBefore(&certificate), -absl::ToInt64Seconds(kEarlier)) != nullptr &&
                   X509_time_adj_ex(X509_getm_notAfter(&certificate), days, 0, nullptr) != nullptr;
  if (!set) return SslError("make a certificate");
  OF_RETURN_IF_ERROR(AddExtensions(certificate, parent, extensions));
  if (X509_sign(&certificate, &signer, EVP_sha256()) == 0) return SslError("sign a certificate");
  return made;
}

absl::StatusOr<Signed> MakeAuthority() {
  return Sign("oneflow CA", kAuthorityDays, nullptr,
              {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
               {NID_key_usage, "critical,keyCertSign,cRLSign"},
               {NID_subject_key_identifier, "hash"}});
}

absl::StatusOr<Signed> MakeMember(const Signed& authority, Holder holder, const CertificateOptions& options) {
  const bool cluster = holder == Holder::kCluster;
  return Sign(
      cluster ? "oneflow cluster" : "oneflow user", options.days, &authority,
      {{NID_basic_constraints, "critical,CA:FALSE"},
       {NID_key_usage, "critical,digitalSignature"},
       {NID_ext_key_usage, cluster ? "serverAuth,clientAuth" : "clientAuth"},
       {NID_subject_key_identifier, "hash"},
       {NID_authority_key_identifier, "keyid"},
       {NID_subject_alt_name, AltNames(holder, cluster ? WithOwnNames(options.hosts) : std::vector<std::string>())}});
}

// --- folders ---

struct NamedFile {
  std::string name, contents;
  int mode;
};
constexpr int kOwner = 0600, kAnyone = 0644;

// The folder with these files, or none.
absl::Status MakeWholeFolder(const std::string& folder, const std::vector<NamedFile>& files) {
  std::error_code error;
  const std::string partial = absl::StrCat(folder, ".", getpid(), ".partial");
  std::filesystem::create_directories(partial, error);
  absl::Status made = error ? absl::UnavailableError(absl::StrCat("'", partial, "': cannot make it: ", error.message()))
                            : absl::OkStatus();
  for (const NamedFile& file : files) {
    if (made.ok()) made = ReplaceFile(absl::StrCat(partial, "/", file.name), file.contents, file.mode);
  }
  if (made.ok()) {
    std::filesystem::rename(partial, folder, error);
    if (error) made = absl::UnavailableError(absl::StrCat("'", folder, "': cannot make it: ", error.message()));
  }
  if (!made.ok()) std::filesystem::remove_all(partial, error);
  return made;
}

// Makes it if there is none.
absl::StatusOr<Signed> FindAuthority(const std::string& folder) {
  if (!std::filesystem::exists(folder)) {
    OF_ASSIGN_OR_RETURN(Signed made, MakeAuthority());
    OF_RETURN_IF_ERROR(MakeWholeFolder(
        folder, {{"ca.pem", PemOf(*made.certificate), kAnyone}, {"key.pem", PemOf(*made.key), kOwner}}));
    return made;
  }
  OF_ASSIGN_OR_RETURN(const std::string certificate, ReadPublicFile(absl::StrCat(folder, "/ca.pem")));
  OF_ASSIGN_OR_RETURN(const std::string key, ReadPrivateFile(absl::StrCat(folder, "/key.pem")));
  Signed found{ParseCertificate(certificate), ParseKey(key)};
  const bool together = found.certificate != nullptr && found.key != nullptr &&
                        X509_check_private_key(found.certificate.get(), found.key.get()) == 1;
  ERR_clear_error();
  if (together) return found;
  return absl::InvalidArgumentError(absl::StrCat("'", folder, "': ca.pem and key.pem are no CA's"));
}

// --- judging ---

absl::Status CheckSigned(X509& certificate, X509& authority, absl::Time now) {
  const StorePtr store(X509_STORE_new());
  const StoreContextPtr context(X509_STORE_CTX_new());
  X509_STORE_add_cert(store.get(), &authority);
  if (X509_STORE_CTX_init(context.get(), store.get(), &certificate, nullptr) != 1) return SslError("judge it");
  X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(now));
  X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_CLIENT);
  const bool good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (good) return absl::OkStatus();
  const int error = X509_STORE_CTX_get_error(context.get());
  if (error == X509_V_ERR_CERT_HAS_EXPIRED) {
    const X509* const ended = X509_STORE_CTX_get_current_cert(context.get());
    return absl::InvalidArgumentError(absl::StrCat(ended == &authority ? "its CA" : "it", " ended at ",
                                                   DayOf(TimeOf(X509_get0_notAfter(ended))),
                                                   ": 'oneflow certs init' makes another"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the CA in ca.pem has not signed it: ", X509_verify_cert_error_string(error)));
}

absl::Status CheckHolder(const X509& certificate, Holder holder) {
  const std::vector<std::string> names = NamesOf(certificate);
  if (std::count(names.begin(), names.end(), UriOf(holder)) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it is for ", absl::StrJoin(names, ", "), "; this takes one for ", UriOf(holder)));
}

// `holder`: null for any.
absl::StatusOr<TlsIdentity> LoadAs(const std::string& folder, const Holder* holder, absl::Time now) {
  TlsIdentity identity;
  const std::string path = absl::StrCat(folder, "/cert.pem");
  OF_ASSIGN_OR_RETURN_AT(identity.authority, ReadPublicFile(absl::StrCat(folder, "/ca.pem")), "--tls");
  OF_ASSIGN_OR_RETURN_AT(identity.certificate, ReadPublicFile(path), "--tls");
  OF_ASSIGN_OR_RETURN_AT(identity.key, ReadPrivateFile(absl::StrCat(folder, "/key.pem")), "--tls");
  const std::string where = absl::StrCat("certificate '", path, "'");
  const X509Ptr authority = ParseCertificate(identity.authority), certificate = ParseCertificate(identity.certificate);
  const KeyPtr key = ParseKey(identity.key);
  const bool complete = authority != nullptr && certificate != nullptr && key != nullptr;
  const bool together = complete && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!complete) return absl::InvalidArgumentError(absl::StrCat(where, ": it, its key or ca.pem is no PEM"));
  if (!together) return absl::InvalidArgumentError(absl::StrCat(where, ": key.pem is the key of another"));
  OF_RETURN_IF_ERROR_AT(CheckSigned(*certificate, *authority, now), where);
  if (holder != nullptr) OF_RETURN_IF_ERROR_AT(CheckHolder(*certificate, *holder), where);
  return identity;
}

}  // namespace

std::string UriOf(Holder holder) { return holder == Holder::kCluster ? kClusterUri : "oneflow:user"; }

absl::Status MakeCertificates(const std::string& folder, const CertificateOptions& options) {
  for (const std::string& host : options.hosts) OF_RETURN_IF_ERROR(CheckHost(host));
  const std::pair<Holder, std::string> members[] = {{Holder::kCluster, absl::StrCat(folder, "/cluster")},
                                                    {Holder::kUser, absl::StrCat(folder, "/user")}};
  for (const auto& [holder, path] : members) {
    if (!std::filesystem::exists(path)) continue;
    return absl::AlreadyExistsError(
        absl::StrCat("'", path, "' is there: move it away, and others are made by the same CA"));
  }
  OF_ASSIGN_OR_RETURN(const Signed authority, FindAuthority(absl::StrCat(folder, "/ca")));
  for (const auto& [holder, path] : members) {
    OF_ASSIGN_OR_RETURN(const Signed member, MakeMember(authority, holder, options));
    OF_RETURN_IF_ERROR(MakeWholeFolder(path, {{"ca.pem", PemOf(*authority.certificate), kAnyone},
                                              {"cert.pem", PemOf(*member.certificate), kAnyone},
                                              {"key.pem", PemOf(*member.key), kOwner}}));
  }
  return absl::OkStatus();
}

absl::StatusOr<CertificateFacts> ReadCertificate(absl::string_view pem) {
  const X509Ptr certificate = ParseCertificate(pem);
  ERR_clear_error();
  if (certificate == nullptr) return absl::InvalidArgumentError("it is no certificate in PEM");
  const BioPtr subject(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(subject.get(), X509_get_subject_name(certificate.get()), 0, XN_FLAG_RFC2253);
  return CertificateFacts{.subject = TextOf(*subject),
                          .names = NamesOf(*certificate),
                          .ends = TimeOf(X509_get0_notAfter(certificate.get())),
                          .is_authority = X509_check_ca(certificate.get()) > 0};
}

absl::StatusOr<std::string> DescribeCertificates(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() == ".pem" && entry.path().filename() != "key.pem") files.push_back(entry.path());
  }
  if (error) return absl::NotFoundError(absl::StrCat("'", folder, "': ", error.message()));
  if (files.empty()) return absl::NotFoundError(absl::StrCat("'", folder, "' has no certificates"));
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& file : files) {
    OF_ASSIGN_OR_RETURN(const std::string pem, ReadPublicFile(file));
    OF_ASSIGN_OR_RETURN_AT(const CertificateFacts facts, ReadCertificate(pem), absl::StrCat("'", file, "'"));
    absl::StrAppend(&text, file, "\n  ", facts.subject, ", until ", DayOf(facts.ends),
                    facts.is_authority ? "" : absl::StrCat("\n  ", absl::StrJoin(facts.names, ", ")), "\n");
  }
  return text;
}

absl::StatusOr<TlsIdentity> LoadIdentity(const std::string& folder, absl::Time now) {
  return LoadAs(folder, nullptr, now);
}
absl::StatusOr<TlsIdentity> LoadIdentity(const std::string& folder, Holder holder, absl::Time now) {
  return LoadAs(folder, &holder, now);
}
absl::StatusOr<TlsIdentity> LoadIdentityIfAny(const std::string& folder) {
  return folder.empty() ? TlsIdentity() : LoadIdentity(folder, absl::Now());
}
absl::StatusOr<TlsIdentity> LoadIdentityIfAny(const std::string& folder, Holder holder) {
  return folder.empty() ? TlsIdentity() : LoadIdentity(folder, holder, absl::Now());
}

}  // namespace oneflow
