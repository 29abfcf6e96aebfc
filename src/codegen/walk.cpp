#include "codegen/walk.h"

#include "base/reasons.h"
#include "region/generator.h"
#include "region/level_tensor.h"
#include "region/number.h"
#include "region/subclasses.h"
#include "region/types.h"
#include "region/unread.h"

namespace pellucid::codegen {
namespace {

bool is_tensor(PyObject* object) { return region::cat_of(object) == region::Cat::Tensor; }

bool has_attributes(PyObject* object) {
  PyObject** dict = _PyObject_GetDictPtr(object);
  return dict != nullptr && *dict != nullptr && PyDict_GET_SIZE(*dict) != 0;
}

// A function that is no product of the region although nobody read it through a source.
bool is_known_function(PyObject* object) { return PyFunction_Check(object) && is_importable(object); }

}  // namespace

bool is_object_of_subclass(PyObject* object) {
  return region::is_subclassed(object) && !region::is_wrapper_subclass(object);
}

void cannot_reconstruct(PyObject* object, const char* why) {
  std::string type = Py_TYPE(object)->tp_name;
  if (why[0] != '\0') type += std::string(" (") + why + ")";
  throw GraphBreak(Reason::CannotReconstruct, {{"type", type}});
}

Walker::Walker(const region::Capture& capture) : capture_(capture), target_of_(capture.stands_for) {
  using Kind = region::Effect::Kind;
  for (const region::Effect& effect : capture.effects) {
    const bool container = effect.kind == Kind::SetList || effect.kind == Kind::SetDict ||
                           effect.kind == Kind::SetSet || effect.kind == Kind::SetDeque;
    if (container) target_of_.emplace(effect.value.get(), effect.target.get());
  }
}

const Source* Walker::source_of(PyObject* object) const {
  if (region::is_unread(object)) return region::source_of_unread(object);
  if (auto target = target_of_.find(object); target != target_of_.end()) object = target->second;
  auto found = capture_.source_of.find(object);
  return found == capture_.source_of.end() ? nullptr : found->second;
}

PyObject* Walker::object_at(const Source* source) {
  if (object_at_.empty()) {
    for (const auto& [object, from] : capture_.source_of) object_at_.emplace(from, object);
  }
  const auto found = object_at_.find(source);
  return found == object_at_.end() ? nullptr : found->second;
}

bool Walker::is_constant(PyObject* object) const {
  return codegen::is_constant(object, [this](PyObject* part) {
    if (region::is_number(part)) return true;               // it varies, or stands for a constant that it is not itself
    if (capture_.made_classes.contains(part)) return true;  // another one at each call
    const Source* source = source_of(part);
    return source == nullptr ? is_nan(part) : source->step != source::Step::Const;
  });
}

graph::Node* Walker::detached(PyObject* object) const {
  const auto found = capture_.freed ? capture_.node_of.find(object) : capture_.node_of.end();
  if (found == capture_.node_of.end()) return nullptr;
  return capture_.freed->detached(object, capture_.bodies->here(found->second));
}

// What the graph gives is a plain tensor, or a parameter where no backend comes in between.
bool Walker::is_output_as_it_is(PyObject* object) const {
  if (!is_tensor(object)) return true;
  if (region::is_wrapper_subclass(object)) return true;  // nothing of it is set in a region
  if (capture_.late_parameters.contains(object)) return false;
  const bool is_plain = region::is_exact_tensor(object) || capture_.leaves.contains(object);
  if (region::is_level_tensor(object)) cannot_reconstruct(object, "a tensor of a function transform that is over");
  if (!is_plain) cannot_reconstruct(object, "a tensor of this class");
  return !has_attributes(object) && !capture_.gradients.contains(object) && detached(object) == nullptr;
}

// The graph gives a tensor, of which the array is made behind it.
bool Walker::is_array_of_tensor(PyObject* object) const {
  return capture_.computes_arrays && region::cat_of(object) == region::Cat::Array && capture_.node_of.contains(object);
}

bool Walker::exists(PyObject* object) const {
  if (source_of(object) == nullptr && is_array_of_tensor(object)) return false;
  return is_singleton(object) || source_of(object) != nullptr ||
         (capture_.node_of.count(object) != 0 && !is_object_of_subclass(object) && is_output_as_it_is(object)) ||
         is_constant(object) || is_known_function(object);
}

PyObject* real_method(PyObject* object) {
  if (!Py_IS_TYPE(object, &PyMethodDescr_Type) && !Py_IS_TYPE(object, &PyWrapperDescr_Type)) return nullptr;
  if (PyDescr_TYPE(object) != region::generator_type()) return nullptr;
  return PyDict_GetItem(PyGen_Type.tp_dict, PyDescr_NAME(object));
}

// A number of this very run, or a tuple of constants that holds one.
bool Walker::tells_an_id(PyObject* object) const {
  if (capture_.region_ids.empty()) return false;
  if (capture_.region_ids.contains(object)) return true;
  if (!PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (tells_an_id(PyTuple_GET_ITEM(object, i))) return true;
  }
  return false;
}

Expr Walker::ref(PyObject* object) {
  if (is_singleton(object)) return Expr::constant(object);
  if (object == frames::callers_exception()) return Expr::constant(object);
  if (PyObject* method = real_method(object)) return Expr::constant(method);
  if (const Source* source = source_of(object)) return Expr::of(source);
  if (region::is_number(object)) {
    const region::Number* number = region::as_number(object);
    if (number->settled) return Expr::constant(number->value);
    if (number->source == nullptr && number->function == nullptr)
      return Expr::of(capture_.bodies->here(capture_.node_of.at(object)));
    return number->source != nullptr ? Expr::of(number->source) : Expr::fresh(add(object));
  }
  if (auto found = capture_.node_of.find(object); found != capture_.node_of.end()) {
    if (is_object_of_subclass(object) || is_array_of_tensor(object)) return Expr::fresh(add(object));
    return is_output_as_it_is(object) ? Expr::of(capture_.bodies->here(found->second)) : Expr::fresh(add(object));
  }
  if (tells_an_id(object)) cannot_reconstruct(object, "the id of an object that the region made");
  if (is_tensor(object)) throw GraphBreak(Reason::UnknownOrigin, {{"detail", "it leaves the region"}});
  if (is_local_class(object) || capture_.made_classes.contains(object))
    cannot_reconstruct(object, "a class made by a function");
  if (is_constant(object) || is_known_function(object)) return Expr::constant(object);
  return Expr::fresh(add(object));
}

int Walker::add(PyObject* object) {
  auto [entry, is_new] = ids_.try_emplace(object, static_cast<int>(objects_.size()));
  if (is_new) objects_.push_back(object);
  return entry->second;
}

void Walker::finish() {
  while (recipes_.size() < objects_.size()) {
    const int id = static_cast<int>(recipes_.size());
    recipes_.emplace_back();
    Recipe recipe = recipe_of(*this, objects_[static_cast<std::size_t>(id)], id);
    recipes_[static_cast<std::size_t>(id)] = std::move(recipe);
  }
  link_instance_dicts();
}

void Walker::link_instance_dicts() {
  for (std::size_t id = 0; id < recipes_.size(); ++id) {
    Recipe& recipe = recipes_[id];
    if (recipe.instance_dict == nullptr || ids_.count(recipe.instance_dict) == 0) continue;
    const auto first = recipe.fill.begin() + static_cast<std::ptrdiff_t>(recipe.attributes_begin);
    const auto last = recipe.fill.begin() + static_cast<std::ptrdiff_t>(recipe.attributes_end);
    const auto at = recipe.fill.erase(first, last);
    auto name = py::interned("__dict__");
    recipe.fill.insert(
        at, set_c_attr(objects_[id], Expr::fresh(static_cast<int>(id)), name.get(), ref(recipe.instance_dict)));
    recipe.instance_dict = nullptr;
  }
}

PyObject* Walker::hold(py::Owned<> object) {
  held_.push_back(std::move(object));
  return held_.back().get();
}

}  // namespace pellucid::codegen
