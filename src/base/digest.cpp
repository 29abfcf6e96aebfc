// MurmurHash3 for 64-bit machines (Austin Appleby, in the public domain).
#include "base/digest.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace pellucid {
namespace {

constexpr std::uint64_t kFirst = 0x87c37b91114253d5, kSecond = 0x4cf5ad432745937f;

std::uint64_t spread(std::uint64_t k, std::uint64_t by, int turn, std::uint64_t then) {
  return std::rotl(k * by, turn) * then;
}

std::uint64_t finished(std::uint64_t h) {
  h = (h ^ h >> 33U) * 0xff51afd7ed558ccd;
  h = (h ^ h >> 33U) * 0xc4ceb9fe1a85ec53;
  return h ^ h >> 33U;
}

}  // namespace

std::string digest(std::string_view bytes) {
  constexpr std::size_t kBlock = 16;
  std::uint64_t h[2] = {0, 0}, k[2] = {0, 0};
  const std::size_t size = bytes.size();
  for (; bytes.size() >= kBlock; bytes.remove_prefix(kBlock)) {
    std::memcpy(k, bytes.data(), kBlock);
    h[0] ^= spread(k[0], kFirst, 31, kSecond);
    h[0] = (std::rotl(h[0], 27) + h[1]) * 5 + 0x52dce729;
    h[1] ^= spread(k[1], kSecond, 33, kFirst);
    h[1] = (std::rotl(h[1], 31) + h[0]) * 5 + 0x38495ab5;
  }
  k[0] = k[1] = 0;
  std::memcpy(k, bytes.data(), bytes.size());
  h[0] ^= spread(k[0], kFirst, 31, kSecond) ^ size;
  h[1] ^= spread(k[1], kSecond, 33, kFirst) ^ size;
  h[0] += h[1];
  h[1] += h[0];
  h[0] = finished(h[0]);
  h[1] = finished(h[1]);
  h[0] += h[1];
  h[1] += h[0];
  std::string text(kBlock, '\0');
  std::memcpy(text.data(), h, kBlock);
  return text;
}

}  // namespace pellucid
