// C functions that read their arguments and nothing else: run for real on guarded values.
#include <algorithm>

#include "rows/rows.h"

namespace pellucid::rows {
namespace {

// A container has room for what it once held, and a dict may share its keys with others: one that is built again from
// the region has not. Who holds an object is another matter in frames that are built again.
Result asks_the_memory(Interpreter& t, PyObject* f, Args args) {
  t.region.cannot_be_built_again = true;
  return refuse(t, f, args);
}

// Codecs and error handlers that every interpreter has; others are the program's, and may be registered anew.
bool is_known(PyObject* name, std::initializer_list<std::string_view> known) {
  if (name == nullptr || !PyUnicode_Check(name)) return true;  // the default, or a TypeError
  std::string text;
  for (char c : py::text_of(name)) text += c == '_' || c == ' ' ? '-' : static_cast<char>(std::tolower(c));
  return std::ranges::find(known, text) != known.end();
}

void need_known_codec(PyObject* f, Args args) {
  PyObject* encoding = args.size() > 1 ? args[1] : args.keyword("encoding");
  PyObject* errors = args.size() > 2 ? args[2] : args.keyword("errors");
  if (!is_known(encoding, {"utf-8", "utf8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "utf-16",
                           "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"}) ||
      !is_known(errors, {"strict", "ignore", "replace", "backslashreplace", "xmlcharrefreplace", "namereplace",
                         "surrogateescape", "surrogatepass"}))
    unsupported(Reason::BadArguments, {{"callee", describe(f) + " with a codec that programs may register"}});
}

}  // namespace

Result coded(Interpreter& t, PyObject* f, Args args) {
  need_known_codec(f, args);
  return pure(t, f, args);
}

namespace {

// A key function would run during capture.
Result without_key(Interpreter& t, PyObject* f, Args args) {
  if (PyObject* key = args.keyword("key"); key != nullptr && key != Py_None)
    unsupported(Reason::BadArguments, {{"callee", describe(f) + " with a key"}});
  return pure(t, f, args);
}

// A text of a class of its own (torch.__version__) is read as the plain text that it holds, which never changes.
Result of_text(Interpreter& t, PyObject* f, Args args) {
  PyObject* const self = args.size() > 0 ? args[0] : nullptr;
  const bool has_class = self != nullptr && PyUnicode_Check(self) && !PyUnicode_CheckExact(self);
  if (!has_class || !t.region.provenance.is_outside(self)) return pure(t, f, args);
  t.region.provenance.guard_identity(self);
  const auto plain = py::take(PyUnicode_FromObject(self));
  t.region.provenance.keep(plain.get());
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  values[0] = plain.get();
  return pure(t, f, Args{values, args.kwnames});
}

#define STR(n) \
  { "builtins.str." n, of_text }
#define MATH(n) \
  { "math." n, pure }
#define CMATH(n) \
  { "cmath." n, pure }
const Row rows[] = {
    STR("capitalize"),
    STR("casefold"),
    STR("center"),
    STR("count"),
    {"builtins.str.encode", coded},
    STR("endswith"),
    STR("expandtabs"),
    STR("find"),
    STR("format_map"),
    STR("index"),
    STR("__iter__"),
    STR("isalnum"),
    STR("isalpha"),
    STR("isascii"),
    STR("isdecimal"),
    STR("isdigit"),
    STR("isidentifier"),
    STR("islower"),
    STR("isnumeric"),
    STR("isprintable"),
    STR("isspace"),
    STR("istitle"),
    STR("isupper"),
    STR("ljust"),
    STR("lower"),
    STR("lstrip"),
    STR("maketrans"),
    STR("partition"),
    STR("removeprefix"),
    STR("removesuffix"),
    STR("replace"),
    STR("rfind"),
    STR("rindex"),
    STR("rjust"),
    STR("rpartition"),
    STR("rsplit"),
    STR("rstrip"),
    STR("split"),
    STR("splitlines"),
    STR("startswith"),
    STR("strip"),
    STR("swapcase"),
    STR("title"),
    STR("translate"),
    STR("upper"),
    STR("zfill"),
    STR("__len__"),
    STR("__contains__"),
    STR("__eq__"),
    STR("__hash__"),
    STR("__format__"),
    {"builtins.int.__format__", pure},
    {"builtins.float.__format__", pure},
    {"builtins.bytes.decode", coded},
    {"builtins.bytes.hex", pure},
    {"builtins.bytes.startswith", pure},
    {"builtins.int.bit_length", pure},
    {"builtins.int.bit_count", pure},
    {"builtins.int.to_bytes", pure},
    {"builtins.int.from_bytes", pure},
    {"builtins.int.conjugate", pure},
    {"builtins.int.as_integer_ratio", pure},
    {"builtins.float.is_integer", pure},
    {"builtins.float.as_integer_ratio", pure},
    {"builtins.float.hex", pure},
    {"builtins.float.fromhex", pure},
    {"builtins.complex.conjugate", pure},
    {"builtins.range.index", pure},
    {"builtins.range.count", pure},
    {"builtins.slice.indices", pure},
    {"_struct.pack", pure},
    {"_struct.unpack", pure},
    {"_struct.calcsize", pure},
    {"_bisect.bisect_left", without_key},
    {"_bisect.bisect_right", without_key},
    {"builtins.chr", pure},
    {"builtins.ord", pure},
    {"builtins.hex", pure},
    {"builtins.bin", pure},
    {"builtins.oct", pure},
    {"builtins.ascii", pure},
    {"builtins.bytes", coded},
    MATH("acos"),
    MATH("acosh"),
    MATH("asin"),
    MATH("asinh"),
    MATH("atan"),
    MATH("atan2"),
    MATH("atanh"),
    MATH("cbrt"),
    MATH("ceil"),
    MATH("comb"),
    MATH("copysign"),
    MATH("cos"),
    MATH("cosh"),
    MATH("degrees"),
    MATH("dist"),
    MATH("erf"),
    MATH("erfc"),
    MATH("exp"),
    MATH("exp2"),
    MATH("expm1"),
    MATH("fabs"),
    MATH("factorial"),
    MATH("floor"),
    MATH("fmod"),
    MATH("frexp"),
    MATH("fsum"),
    MATH("gamma"),
    MATH("gcd"),
    MATH("hypot"),
    MATH("isclose"),
    MATH("isfinite"),
    MATH("isinf"),
    MATH("isnan"),
    MATH("isqrt"),
    MATH("lcm"),
    MATH("ldexp"),
    MATH("lgamma"),
    MATH("log"),
    MATH("log10"),
    MATH("log1p"),
    MATH("log2"),
    MATH("modf"),
    MATH("nextafter"),
    MATH("perm"),
    MATH("pow"),
    MATH("radians"),
    MATH("remainder"),
    MATH("sin"),
    MATH("sinh"),
    MATH("sqrt"),
    MATH("tan"),
    MATH("tanh"),
    MATH("trunc"),
    MATH("ulp"),
    CMATH("acos"),
    CMATH("acosh"),
    CMATH("asin"),
    CMATH("asinh"),
    CMATH("atan"),
    CMATH("atanh"),
    CMATH("cos"),
    CMATH("cosh"),
    CMATH("exp"),
    CMATH("isclose"),
    CMATH("isfinite"),
    CMATH("isinf"),
    CMATH("isnan"),
    CMATH("log"),
    CMATH("log10"),
    CMATH("phase"),
    CMATH("polar"),
    CMATH("rect"),
    CMATH("sin"),
    CMATH("sinh"),
    CMATH("sqrt"),
    CMATH("tan"),
    CMATH("tanh"),
    {"posix.fspath", pure},
    {"sys.intern", pure},
    {"sys.getrecursionlimit", refuse},
    {"sys.getrefcount", asks_the_memory},
    {"sys.getsizeof", asks_the_memory},
    {"sys.is_finalizing", pure},
    {"time.time", refuse},
    {"time.perf_counter", refuse},
};
#undef STR
#undef MATH
#undef CMATH

}  // namespace

const std::span<const Row> kPureRows = rows;

}  // namespace pellucid::rows
