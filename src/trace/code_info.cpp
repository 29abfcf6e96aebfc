#include "trace/code_info.h"

#include <array>
#include <memory>
#include <unordered_set>

#include "bytecode/opcodes.h"

namespace pellucid::trace {
namespace {

constexpr auto make_caches() {
  std::array<std::uint8_t, 256> caches{};
#define OP(number, name, cache_entries, ...) caches[number] = cache_entries;
#include "bytecode/opcodes.def"
  return caches;
}
constexpr auto kCacheTable = make_caches();

std::unordered_set<PyCodeObject*>& hidden() {
  static auto* t = new std::unordered_set<PyCodeObject*>;
  return *t;
}

// Objects/exception_handling_notes.txt: 6-bit big-endian varints, the first byte of an entry has bit 7 set.
std::uint32_t varint(const unsigned char*& p) {
  std::uint32_t value = *p & 63u;
  while (*p++ & 64u) value = (value << 6) | (*p & 63u);
  return value;
}

}  // namespace

static_assert(kExtendedArg == static_cast<std::uint8_t>(bytecode::Opcode::EXTENDED_ARG));

std::uint8_t cache_units(std::uint8_t opcode) noexcept { return kCacheTable[opcode]; }

const objects::CodeInfo* CodeTable::find(PyCodeObject* code) {
  auto& slot = table_[code];
  if (slot) return slot.get();
  slot = std::make_unique<objects::CodeInfo>();
  held_.push_back(py::Owned<PyCodeObject>::share(code));
  objects::CodeInfo& info = *slot;
  info.bytes = py::take(PyCode_GetCode(code));
  info.units = reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(info.bytes.get()));
  info.size = static_cast<int>(PyBytes_GET_SIZE(info.bytes.get()));
  info.hidden = hidden().contains(code);
  const auto* p = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_exceptiontable));
  const auto* end = p + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (p < end) {
    const std::uint32_t start = varint(p), length = varint(p), target = varint(p), depth_lasti = varint(p);
    info.handlers.insert(info.handlers.end(), {start * 2, (start + length) * 2, target * 2, depth_lasti});
  }
  return slot.get();
}

// Held for good: the address of a dead one could be that of the user's code.
void hide_code(PyCodeObject* code) {
  if (!hidden().insert(code).second) return;
  Py_INCREF(code);
  // A real frame of it counts as one that did not begin yet: tracebacks and sys._getframe leave those out.
  constexpr int kNever = 1 << 28;
  code->_co_firsttraceable = kNever;
}

bool find_handler(const objects::CodeInfo& info, int offset, Handler* out) {
  for (std::size_t i = 0; i + 3 < info.handlers.size(); i += 4) {
    if (static_cast<std::uint32_t>(offset) >= info.handlers[i] &&
        static_cast<std::uint32_t>(offset) < info.handlers[i + 1]) {
      *out = {static_cast<int>(info.handlers[i + 2]), static_cast<int>(info.handlers[i + 3] >> 1),
              (info.handlers[i + 3] & 1) != 0};
      return true;
    }
  }
  return false;
}

}  // namespace pellucid::trace
