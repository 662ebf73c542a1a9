#include "actor/transport/seal.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

using Nonce = std::array<unsigned char, 12>;

Nonce NonceOf(int32_t sender, uint64_t number) {
  Nonce nonce;
  std::memcpy(nonce.data(), &sender, sizeof(sender));
  std::memcpy(nonce.data() + sizeof(sender), &number, sizeof(number));
  return nonce;
}

const unsigned char* Bytes(absl::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* Bytes(char* text) { return reinterpret_cast<unsigned char*>(text); }

// A context that has the key; for sealing if `seals`, else for opening.
absl::StatusOr<EVP_CIPHER_CTX*> MakeContext(absl::string_view key, bool seals) {
  if (key.size() != kSealKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a key of ", key.size(), " bytes; one has ", kSealKeyBytes));
  }
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  if (context != nullptr && EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nullptr, Bytes(key), nullptr, seals) == 1) {
    return context;
  }
  EVP_CIPHER_CTX_free(context);
  return absl::InternalError("OpenSSL has no AES-256-GCM");
}

// Begins with the clear text beside it.
bool Begin(EVP_CIPHER_CTX* context, const Nonce& nonce, absl::string_view beside) {
  int length = 0;
  return EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
         EVP_CipherUpdate(context, nullptr, &length, Bytes(beside), static_cast<int>(beside.size())) == 1;
}

}  // namespace

absl::StatusOr<std::string> MakeSealKey() {
  std::string key(kSealKeyBytes, '\0');
  if (RAND_bytes(Bytes(key.data()), kSealKeyBytes) == 1) return key;
  return absl::ResourceExhaustedError("there are no random bytes");
}

void Sealer::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }
void Opener::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

absl::StatusOr<Sealer> Sealer::Make(absl::string_view receivers_key, int32_t sender) {
  Sealer sealer(sender);
  OF_ASSIGN_OR_RETURN(EVP_CIPHER_CTX* const context, MakeContext(receivers_key, /*seals=*/true));
  sealer.context_.reset(context);
  return sealer;
}

absl::Status Sealer::Seal(absl::string_view beside, absl::Span<const absl::string_view> pieces, char* to) {
  bool good = Begin(context_.get(), NonceOf(sender_, ++number_), beside);
  int length = 0;
  for (const absl::string_view piece : pieces) {
    good =
        good && EVP_CipherUpdate(context_.get(), Bytes(to), &length, Bytes(piece), static_cast<int>(piece.size())) == 1;
    to += piece.size();
  }
  good = good && EVP_CipherFinal_ex(context_.get(), Bytes(to), &length) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, kSealTagBytes, to) == 1;
  return good ? absl::OkStatus() : absl::InternalError("OpenSSL cannot seal");
}

bool SeenNumbers::Take(uint64_t number) {
  if (number == 0 || number + kWindow <= last_) return false;
  if (number > last_) {
    // The numbers in between have not come.
    if (number - last_ >= kWindow) seen_.reset();
    for (uint64_t skipped = last_ + 1; number - last_ < kWindow && skipped <= number; ++skipped) {
      seen_.reset(skipped % kWindow);
    }
    last_ = number;
  }
  if (seen_.test(number % kWindow)) return false;
  seen_.set(number % kWindow);
  return true;
}

absl::StatusOr<Opener> Opener::Make(absl::string_view own_key, int32_t sender) {
  Opener opener(sender);
  OF_ASSIGN_OR_RETURN(EVP_CIPHER_CTX* const context, MakeContext(own_key, /*seals=*/false));
  opener.context_.reset(context);
  return opener;
}

absl::StatusOr<absl::string_view> Opener::Open(uint64_t number, absl::string_view beside, absl::string_view sealed) {
  const auto refuse = [&](absl::string_view why) {
    return absl::PermissionDeniedError(absl::StrCat(sealed.size(), " bytes with number ", number, ": ", why));
  };
  if (sealed.size() < kSealTagBytes) return refuse("they are not sealed");
  const absl::string_view hidden = sealed.substr(0, sealed.size() - kSealTagBytes);
  std::string tag(sealed.substr(hidden.size()));
  // Grows only: the next call may write all of it.
  if (text_.size() < hidden.size() + kSealTagBytes) text_.resize(hidden.size() + kSealTagBytes);
  int length = 0;
  const bool good = Begin(context_.get(), NonceOf(sender_, number), beside) &&
                    EVP_CipherUpdate(context_.get(), Bytes(text_.data()), &length, Bytes(hidden),
                                     static_cast<int>(hidden.size())) == 1 &&
                    EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_SET_TAG, kSealTagBytes, tag.data()) == 1 &&
                    EVP_CipherFinal_ex(context_.get(), Bytes(text_.data()) + hidden.size(), &length) == 1;
  if (!good) return refuse(absl::StrCat("process ", sender_, " has not sealed them for us"));
  if (!seen_.Take(number)) return refuse("they have come before");
  return absl::string_view(text_.data(), hidden.size());
}

}  // namespace oneflow
