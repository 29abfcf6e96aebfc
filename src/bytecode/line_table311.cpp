#include "bytecode/line_table.h"

namespace pellucid::bytecode {
namespace {

// Codes 0-9 are the short form: (column group, column low bits, width) on the same line.
constexpr int kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15;
constexpr int kMaxUnits = 8;

class Writer {
 public:
  explicit Writer(int first_line) : line_(first_line) {}
  void put(int units, const Position& at);
  std::string take() { return std::move(out_); }

 private:
  void byte(int value) { out_.push_back(static_cast<char>(value)); }
  void first(int code, int units) { byte(0x80 | (code << 3) | (units - 1)); }
  void varint(unsigned value) {
    for (; value >= 64; value >>= 6) byte(static_cast<int>(value & 0x3F) | 0x40);
    byte(static_cast<int>(value));
  }
  void signed_varint(int value) {
    varint(value < 0 ? (static_cast<unsigned>(-value) << 1) | 1U : static_cast<unsigned>(value) << 1);
  }
  void put_long(int units, const Position& at, int delta);

  std::string out_;
  int line_;
};

void Writer::put_long(int units, const Position& at, int delta) {
  first(kLong, units);
  signed_varint(delta);
  varint(static_cast<unsigned>(at.end_line - at.line));
  varint(static_cast<unsigned>(at.column + 1));
  varint(static_cast<unsigned>(at.end_column + 1));
}

// Chooses among the forms as CPython's compiler does.
void Writer::put(int units, const Position& at) {
  if (at.line < 0) return first(kNone, units);
  const int delta = at.line - line_;
  line_ = at.line;
  const bool one_line = at.end_line == at.line;
  if (at.column < 0 || at.end_column < 0) {
    if (!one_line && at.end_line != -1) return put_long(units, at, delta);
    first(kNoColumns, units);
    return signed_varint(delta);
  }
  if (one_line && delta == 0 && at.column < 80 && at.end_column >= at.column && at.end_column - at.column < 16) {
    first(at.column >> 3, units);
    return byte(((at.column & 7) << 4) | (at.end_column - at.column));
  }
  if (one_line && delta >= 0 && delta <= kOneLine2 - kOneLine0 && at.column < 128 && at.end_column < 128) {
    first(kOneLine0 + delta, units);
    byte(at.column);
    return byte(at.end_column);
  }
  put_long(units, at, delta);
}

}  // namespace

std::string emit_line_table(const std::vector<LineEntry>& entries, int first_line) {
  Writer out(first_line);
  for (const LineEntry& entry : entries) {
    int left = entry.units;
    for (; left > kMaxUnits; left -= kMaxUnits) out.put(kMaxUnits, entry.position);
    if (left > 0) out.put(left, entry.position);
  }
  return out.take();
}

}  // namespace pellucid::bytecode
