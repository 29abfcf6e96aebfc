// CPython 3.11's co_exceptiontable: ranges of code with the handler that takes their exceptions. Offsets are in bytes.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pellucid::bytecode {

struct ExceptionEntry {
  int start = 0, end = 0;  // [start, end)
  int target = 0;
  int depth = 0;       // the stack is cut to this depth …
  bool lasti = false;  // … then, if set, the offset that raised is pushed, then the exception
  bool operator==(const ExceptionEntry&) const = default;
  int handler_depth() const noexcept { return depth + (lasti ? 1 : 0) + 1; }  // at the handler's first instruction
};

// The entry whose handler takes what the instruction at this offset raises: the first one that covers it.
std::optional<ExceptionEntry> handler_at(std::string_view table, int offset);

// Throws PythonError (ValueError) when the bytes are no exception table.
std::vector<ExceptionEntry> parse_exception_table(std::string_view bytes);
std::string emit_exception_table(const std::vector<ExceptionEntry>& entries);

}  // namespace pellucid::bytecode
