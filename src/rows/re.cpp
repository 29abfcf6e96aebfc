// Regular expressions: compiled patterns and matches never change (compiling.cpp makes patterns).
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

Result match_text(Interpreter& t, PyObject* f, Args args) {
  if (args.size() > 0) t.region.provenance.guard_identity(args[0]);
  for (std::size_t i = 1; i < args.values.size(); ++i) {
    // The texts of a class of its own (torch.__version__) are read in C, and never change.
    if (PyUnicode_Check(args.values[i]) && t.region.provenance.is_outside(args.values[i]))
      t.region.provenance.guard_identity(args.values[i]);
    else if (!PyUnicode_Check(args.values[i]) && !region::is_atom(region::cat_of(args.values[i])))
      unsupported(Reason::BadArguments, {{"callee", "matching what is no text"}});
  }
  return run_native(t, f, args);
}

const Row rows[] = {
    {"re.Pattern.search", match_text},  {"re.Pattern.match", match_text},     {"re.Pattern.fullmatch", match_text},
    {"re.Pattern.findall", match_text}, {"re.Pattern.split", match_text},     {"re.Pattern.sub", match_text},
    {"re.Pattern.subn", match_text},    {"re.Match.group", match_text},       {"re.Match.groups", match_text},
    {"re.Match.groupdict", match_text}, {"re.Match.start", match_text},       {"re.Match.end", match_text},
    {"re.Match.span", match_text},      {"re.Match.__getitem__", match_text},
};

}  // namespace

const std::span<const Row> kRegexRows = rows;

}  // namespace pellucid::rows
