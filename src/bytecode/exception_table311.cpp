#include "bytecode/exception_table.h"
#include "py/ref.h"

namespace pellucid::bytecode {
namespace {

constexpr int kStartOfEntry = 0x80, kContinues = 0x40, kPayload = 0x3F;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return at_ == bytes_.size(); }
  int varint() {  // big endian, six bits a byte
    int value = 0;
    for (;;) {
      const int byte = next();
      value = (value << 6) | (byte & kPayload);
      if ((byte & kContinues) == 0) return value;
    }
  }

 private:
  int next() {
    if (done()) {
      PyErr_SetString(PyExc_ValueError, "truncated exception table");
      py::throw_pending();
    }
    return static_cast<unsigned char>(bytes_[at_++]);
  }
  std::string_view bytes_;
  std::size_t at_ = 0;
};

void put_varint(std::string& out, int value, int first_bits) {
  int shift = 0;
  while (shift < 30 && (value >> (shift + 6)) != 0) shift += 6;
  for (int flags = first_bits; shift >= 0; shift -= 6, flags = 0) {
    out.push_back(static_cast<char>(flags | (shift > 0 ? kContinues : 0) | ((value >> shift) & kPayload)));
  }
}

}  // namespace

std::vector<ExceptionEntry> parse_exception_table(std::string_view bytes) {
  std::vector<ExceptionEntry> entries;
  Reader in(bytes);
  while (!in.done()) {
    ExceptionEntry entry;
    entry.start = in.varint() * 2;
    entry.end = entry.start + in.varint() * 2;
    entry.target = in.varint() * 2;
    const int depth_and_lasti = in.varint();
    entry.depth = depth_and_lasti >> 1;
    entry.lasti = (depth_and_lasti & 1) != 0;
    entries.push_back(entry);
  }
  return entries;
}

std::optional<ExceptionEntry> handler_at(std::string_view table, int offset) {
  for (const ExceptionEntry& entry : parse_exception_table(table)) {
    if (entry.start <= offset && offset < entry.end) return entry;
  }
  return std::nullopt;
}

std::string emit_exception_table(const std::vector<ExceptionEntry>& entries) {
  std::string out;
  for (const ExceptionEntry& entry : entries) {
    put_varint(out, entry.start / 2, kStartOfEntry);
    put_varint(out, (entry.end - entry.start) / 2, 0);
    put_varint(out, entry.target / 2, 0);
    put_varint(out, (entry.depth << 1) | (entry.lasti ? 1 : 0), 0);
  }
  return out;
}

}  // namespace pellucid::bytecode
