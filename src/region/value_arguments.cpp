#include "region/value_arguments.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "aten/aten.h"
#include "py/cpython.h"
#include "region/lookups.h"
#include "region/numbers.h"
#include "region/region.h"
#include "region/subclasses.h"
#include "region/torch_module.h"
#include "region/types.h"

namespace pellucid::region {
namespace {

// The same of a function and of the method.
std::string plain_name(PyObject* target) {
  std::string name = name_of_target(target);
  return name.starts_with("Tensor.") ? name.substr(7) : name;
}

// The rows are names of torch's functions: a function of the program, or an operator of another library, may have the
// same.
bool may_have_row(PyObject* target) {
  if (PyFunction_Check(target)) {
    PyObject* const module = reinterpret_cast<PyFunctionObject*>(target)->func_module;
    return module != nullptr && PyUnicode_Check(module) != 0 && py::text_of(module).starts_with("torch.");
  }
  if (PyUnicode_Check(target) || PyCFunction_Check(target) || Py_IS_TYPE(target, &PyMethodDescr_Type) ||
      Py_IS_TYPE(target, &PyWrapperDescr_Type))
    return true;
  static PyObject* const name = PyUnicode_InternFromString("_qualified_op_name");  // of an overload packet
  PyObject* found = nullptr;
  if (_PyObject_LookupAttr(target, name, &found) < 0) PyErr_Clear();
  const auto qualified = py::Owned<>::steal(found);
  return !qualified || PyUnicode_Check(qualified.get()) == 0 || py::text_of(qualified.get()).starts_with("aten::");
}

}  // namespace

bool holds_open_numbers_alone(PyObject* value) { return holds_open(value) && holds_numbers_alone(value); }

const ValueArguments* value_arguments(PyObject* target) {
#define VALUES(name, positions, keywords) {#name, ValueArguments{positions, keywords}},
#define SCALAR_TENSORS(name, positions, keywords) {#name, ValueArguments{positions, keywords, true}},
#define SCALAR_TENSOR(name, positions, keywords, one) {#name, ValueArguments{positions, keywords, true, false, one}},
#define FRACTIONS(name, positions, keywords) {#name, ValueArguments{positions, keywords, false, true}},
  static const std::unordered_map<std::string_view, ValueArguments> rows = {
#include "region/value_arguments.def"
  };
  if (!may_have_row(target)) return nullptr;
  std::string name = plain_name(target);
  if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : &found->second;
}

bool takes_any_number(const ValueArguments* known, Args args, std::size_t i) {
  if (known == nullptr) return false;
  PyObject* keyword = args.keyword_of(i);
  if (keyword == nullptr) return std::ranges::find(known->positions, i) != known->positions.end();
  return std::ranges::find(known->keywords, py::text_of(keyword)) != known->keywords.end();
}

bool takes_scalar_tensors(const ValueArguments* known, Args args) {
  if (known == nullptr || !known->as_tensors || (args.keyword_count() != 0 && known->as_tensor.empty())) return false;
  bool any = false;
  for (PyObject* value : args.values) {
    if (cat_of(value) != Cat::Tensor) continue;
    if (!aten::is_float_with_dimensions(value)) return false;
    any = true;
  }
  return any;
}

bool may_be_tensor(const ValueArguments& known, Args args, std::size_t i) {
  if (known.as_tensor.empty()) return true;
  const auto keyword = std::ranges::find(known.keywords, known.as_tensor);
  const std::size_t at = known.positions[static_cast<std::size_t>(keyword - known.keywords.begin())];
  PyObject* name = args.keyword_of(i);
  return name == nullptr ? i == at : py::text_of(name) == known.as_tensor;
}

bool divides_scalar_tensor(const NumberPolicy& policy, PyObject* target, Args args) {
  static PyObject* const truediv = py::import_attr("operator", "truediv").release();
  return target == truediv && args.size() == 2 && is_open(args[0]) && as_number(args[0])->as_tensor &&
         policy.graph_numbers == GraphNumbers::Ints && takes_scalar_tensors(value_arguments(target), args);
}

bool has_two_scalar_tensors(const NumberPolicy& policy, PyObject* target, Args args) {
  if (policy.graph_numbers != GraphNumbers::Ints || args.size() != 2 || args.kwnames != nullptr) return false;
  const auto is_number_as_tensor = [](PyObject* value) { return is_open(value) && as_number(value)->as_tensor; };
  const auto is_scalar = [](PyObject* value) {
    return cat_of(value) == Cat::Tensor && !is_wrapper_subclass(value) && aten::is_full_float(value) &&
           aten::meta_of(value).sizes.empty();
  };
  const bool number_first = is_number_as_tensor(args[0]) && is_scalar(args[1]);
  if (!number_first && !(is_number_as_tensor(args[1]) && is_scalar(args[0]))) return false;
  if (value_arguments(target) == nullptr) return false;
  static const std::unordered_set<std::string_view> names = {
      "add", "sub", "subtract", "rsub", "mul", "multiply", "truediv", "div", "divide", "true_divide"};
  const std::string name = plain_name(target);
  // With a number as the exponent torch computes otherwise for some of them.
  return names.contains(name) || (number_first && name == "pow");
}

bool is_list_of_indices(PyObject* index) { return PyList_CheckExact(index) && holds_open_numbers_alone(index); }

bool has_list_of_indices(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return is_list_of_indices(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    if (is_list_of_indices(PyTuple_GET_ITEM(key, i))) return true;
  }
  return false;
}

namespace {

// Whether a function asks a sequence for its length and items. The parser of torch's operators takes the memory of a
// list or tuple, past what its class says.
bool asks_sequences(PyObject* target) {
  static const std::unordered_set<std::string_view> askers = {"tensor",
                                                              "as_tensor",
                                                              "asarray",
                                                              "new_tensor",
                                                              "new",
                                                              "scalar_tensor",
                                                              "sparse_coo_tensor",
                                                              "sparse_csr_tensor",
                                                              "sparse_csc_tensor",
                                                              "sparse_bsr_tensor",
                                                              "sparse_bsc_tensor",
                                                              "sparse_compressed_tensor",
                                                              "getitem",
                                                              "setitem",
                                                              "__getitem__",
                                                              "__setitem__"};
  if (PyType_Check(target) || PyFunction_Check(target)) return true;
  return askers.contains(plain_name(target));
}

}  // namespace

void refuse_read_in_python(Region& region, PyObject* target, Args args) {
  for (PyObject* value : args.values) {
    if (is_read_in_python(region, value) && asks_sequences(target))
      unsupported(Reason::UnsupportedProtocol,
                  {{"protocol", "an argument of a torch function"}, {"type", Py_TYPE(value)->tp_name}});
  }
}

bool is_key_with_indices(PyObject* target, Args args, std::size_t i) {
  if (i != 1 || i >= args.size() || !has_list_of_indices(args[1])) return false;
  const std::string name = name_of_target(target);
  return name == "getitem" || name == "setitem";
}

bool takes_any_open_number(PyObject* target, Args args) {
  const auto is_one = [](PyObject* value) { return is_open(value) || holds_open(value); };
  if (std::ranges::none_of(args.values, is_one)) return false;
  const ValueArguments* known = value_arguments(target);
  for (std::size_t i = 0; i < args.values.size(); ++i) {
    if (is_one(args.values[i]) && (takes_any_number(known, args, i) || is_key_with_indices(target, args, i)))
      return true;
  }
  return false;
}

bool is_fraction(Numbers& numbers, PyObject* object) {
  const symbolic::Expr* number = numbers.expr_of(object);
  if (number == nullptr || number->type != symbolic::Type::Float || !(number->hint.f > 0 && number->hint.f < 1))
    return false;
  const auto compare = [&](symbolic::Comparison comparison, double bound) {
    return symbolic::compare(numbers.space(), comparison, number,
                             numbers.space().constant(symbolic::Value::real(bound)));
  };
  return numbers.decide(compare(symbolic::Comparison::Gt, 0.0)) &&
         numbers.decide(compare(symbolic::Comparison::Lt, 1.0));
}

}  // namespace pellucid::region
