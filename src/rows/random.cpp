// Random numbers of Python's `random` and of numpy.random. What one call draws is a number that the region draws at
// each call (region/draws.h); which calls those are is said in python/pellucid/_draws.py. All others run for real, as
// one step: their Python functions are not followed to the C calls that draw, of which some draw until a number fits.
#include <algorithm>

#include "region/draws.h"
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

// `self` and constants, which may be given by name.
Result draw(Interpreter& t, PyObject* function, Args args) {
  if (args.size() == 0 || args.keyword_count() != 0) return refuse(t, function, args);
  std::vector<PyObject*> constants;
  for (PyObject* value : args.values.subspan(1)) {
    constants.push_back(t.region.numbers.plain(value));
    const Cat cat = region::cat_of(constants.back());
    if (cat != Cat::Number && cat != Cat::Singleton) return refuse(t, function, args);
  }
  t.region.provenance.guard_identity(function);
  py::Owned<> number;
  try {
    number = t.region.draws.draw(args[0], function, tuple_of(constants));
  } catch (const py::PythonError&) {  // eager raises it
  }
  if (!number) return refuse(t, function, args);
  return Result::of(std::move(number));
}

// random.uniform(a, b) computes with its bounds: with those that change it is followed.
Result draw_between(Interpreter& t, PyObject* function, Args args) {
  if (PyFunction_Check(function) && std::ranges::any_of(args.values, region::is_open))
    return t.inline_function(function, args);
  return draw(t, function, args);
}

#define RANDOM(n) \
  { "random.Random." n, refuse }
const Row rows[] = {
    {"_random.Random.random", draw},
    {"_random.Random.getrandbits", draw},
    {"random.Random.uniform", draw_between, true, true},
    {"random.Random.randint", draw},
    {"random.Random.randrange", draw},
    {"random.Random.triangular", draw},
    {"random.Random.normalvariate", draw},
    {"random.Random.expovariate", draw},
    {"random.Random.betavariate", draw},
    RANDOM("choice"),
    RANDOM("choices"),
    RANDOM("gammavariate"),
    RANDOM("gauss"),
    RANDOM("getstate"),
    RANDOM("lognormvariate"),
    RANDOM("paretovariate"),
    RANDOM("randbytes"),
    RANDOM("sample"),
    RANDOM("seed"),
    RANDOM("setstate"),
    RANDOM("shuffle"),
    RANDOM("vonmisesvariate"),
    RANDOM("weibullvariate"),
};
#undef RANDOM

}  // namespace

const std::span<const Row> kRandomRows = rows;

// The program imports numpy.random itself, if it does.
void add_numpy_draws() {
  static bool known = false;
  if (known || PyDict_GetItemString(PyImport_GetModuleDict(), "numpy.random") == nullptr) return;
  known = true;
  const auto functions = py::take(PyObject_CallNoArgs(py::import_attr("pellucid._draws", "functions_of_numpy").get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(functions.get()); ++i)
    protocols::add_row(PyList_GET_ITEM(functions.get(), i), draw);
}

}  // namespace pellucid::rows
