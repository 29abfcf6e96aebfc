// The bytes of a kept capture: numbers of seven bits a byte, texts with their length in front. What is read is not
// trusted: every length is checked against what there is.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace pellucid::runtime {

// What was read is no kept capture, or one of another world.
struct Miss {
  std::string why;
};

class ByteWriter {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void signed_number(std::int64_t value) {
    number(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
  }
  void real(double value) { number(std::bit_cast<std::uint64_t>(value)); }
  void flag(bool value) { number(value ? 1 : 0); }
  void text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(front(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    throw Miss{"a number has too many bytes"};
  }
  std::int64_t signed_number() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  double real() { return std::bit_cast<double>(number()); }
  bool flag() { return below(2) != 0; }
  // How many things follow: each takes a byte at least.
  std::size_t count() { return below(rest_.size() + 1); }
  std::size_t below(std::size_t limit) {
    const std::uint64_t value = number();
    if (value >= limit) throw Miss{"a number is out of its range"};
    return static_cast<std::size_t>(value);
  }
  std::string_view text() { return front(count()); }
  bool at_end() const noexcept { return rest_.empty(); }

 private:
  std::string_view front(std::size_t size) {
    if (size > rest_.size()) throw Miss{"it ends too early"};
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  std::string_view rest_;
};

}  // namespace pellucid::runtime
