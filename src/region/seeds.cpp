#include "region/seeds.h"

#include <limits>

#include "aten/aten.h"
#include "guards/condition.h"
#include "region/region.h"

namespace pellucid::region {
namespace {

constexpr int kDeepest = 4;  // containers in containers; what is farther down learns by itself

// The path of `source` when what is at `root` has this path.
PathHash from_root(const source::Source* source, const source::Source* root, PathHash path) noexcept {
  if (source == root) return path;
  return hash_below(from_root(source->base, root, path), source->step, source->index, source->operand.get());
}

}  // namespace

void Seeds::add(PyObject* value, const std::string& name) {
  const PathHash path = hash_of_local(py::interned(name.c_str()).get());
  add_below(value, path, 0);
  const source::Source* source = is_number(value) ? nullptr : region_.provenance.source_of(value);
  if (source != nullptr && source->step != source::Step::Const) from_outside_[source].push_back(path);
}

void Seeds::add_below(PyObject* value, PathHash path, int depth) {
  if (is_number(value)) {
    Numbers& numbers = region_.numbers;
    const Number* number = as_number(value);
    if (is_open(value) && !numbers.space().simplify(number->expr)->is_constant())
      found_.push_back({path, number->expr->type == symbolic::Type::Float});
    const bool is_float = PyFloat_CheckExact(number->value) != 0;
    if (number->of_tensor && (is_float || PyLong_CheckExact(number->value))) found_.push_back({path, is_float});
  } else if (PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; depth < kDeepest && i < PyList_GET_SIZE(value); ++i)
      add_below(PyList_GET_ITEM(value, i), hash_below(path, source::Step::Item, i, nullptr), depth + 1);
  } else if (PyTuple_CheckExact(value) || PySlice_Check(value)) {
    const std::size_t before = found_.size();
    for (Py_ssize_t i = 0; depth < kDeepest && i < OpenTuples::size(value); ++i)
      add_below(OpenTuples::item(value, i), OpenTuples::path_of_item(value, path, i), depth + 1);
    // One is opened as a whole before its items are.
    if (found_.size() != before) found_.push_back({path, false});
  } else if (PyDict_CheckExact(value)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (depth < kDeepest && PyDict_Next(value, &position, &key, &item) != 0) {
      if (PyUnicode_CheckExact(key)) add_below(item, hash_below(path, source::Step::DictItem, -1, key), depth + 1);
    }
  } else if (cat_of(value) == Cat::Tensor) {
    add_sizes(value, path);
  }
}

void Seeds::add_sizes(PyObject* tensor, PathHash path) {
  const aten::OpenShape* outside = region_.numbers.tensors.shape_of(tensor);
  aten::OpenShape made;
  if (outside == nullptr && aten::is_fake(tensor)) made = region_.recorder.fakes().open_shape(tensor);
  const aten::OpenShape& shape = outside != nullptr ? *outside : made;
  const auto add = [&](const std::vector<const symbolic::Expr*>& exprs, source::Step step) {
    for (std::size_t i = 0; i < exprs.size(); ++i) {
      if (!region_.numbers.space().simplify(exprs[i])->is_constant())
        found_.push_back({hash_below(path, step, static_cast<std::int64_t>(i), nullptr), false});
    }
  };
  add(shape.sizes, source::Step::Size);
  add(shape.strides, source::Step::Stride);
}

// What was read below a live value that has another name behind the break.
void Seeds::add_what_was_read() {
  for (const Numbers::Symbol& symbol : region_.numbers.symbols_) {
    if (!symbol.is_input() || symbol.seen.pinned) continue;
    for (const source::Source* root = symbol.source; root != nullptr; root = root->base) {
      const auto found = from_outside_.find(root);
      if (found == from_outside_.end()) continue;
      for (const PathHash path : found->second) {
        const PathHash behind = from_root(symbol.source, root, path);
        if (behind != symbol.path) found_.push_back({behind, symbol.seen.is_float});
      }
    }
  }
}

void Seeds::open(Region& region, PyObject* object) {
  Numbers& numbers = region.numbers;
  if (!is_number(object)) return;
  Number* number = as_number(object);
  symbolic::Value hint;
  if (number->source == nullptr || number->expr != nullptr || number->settled || numbers.policy.history == nullptr ||
      !numbers.policy.runs_as_captured() || !guards::is_symbolic_value(number->value, &hint) ||
      !numbers.policy.opens(PyFloat_CheckExact(number->value) != 0))
    return;
  const PathHash path = hash_of(number->source);
  const SeenNumber* seen = numbers.policy.history->find(path);
  if ((seen != nullptr && seen->pinned) || region.unbacked.hints.setup.closes(path)) return;
  number->expr = numbers.new_symbol(hint, number->source, path, std::numeric_limits<std::int64_t>::min());
  region.provenance.guard(Kind::NUMBER_MATCH, number->source,
                          py::Owned<>::share(reinterpret_cast<PyObject*>(Py_TYPE(number->value))));
}

std::vector<Seeds::Changing> Seeds::take() {
  add_what_was_read();
  return std::move(found_);
}

}  // namespace pellucid::region
