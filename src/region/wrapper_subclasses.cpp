#include "region/wrapper_subclasses.h"

#include <algorithm>
#include <optional>
#include <span>

#include "aten/aten.h"
#include "aten/gradients.h"
#include "aten/placement.h"
#include "aten/torch_function.h"
#include "aten/wrapper_subclass.h"
#include "py/cpython.h"
#include "region/jagged.h"
#include "region/objects.h"
#include "region/region.h"
#include "region/size_marks.h"
#include "region/snapshot.h"
#include "region/subclasses.h"

namespace pellucid::region {
namespace {

constexpr const char* kBesideWrapper = "a tensor, beside a tensor subclass whose part it may be,";

constexpr const char* kNotCompiled = "the backend compiles, and it is a view of a strided nested tensor";
constexpr int kDeepest = 8;  // of objects in objects, in what a context is made of

bool is_side_effect(PyObject* error) {
  static PyObject* const type = py::import_attr("pellucid._functional", "SideEffect").release();
  return PyErr_GivenExceptionMatches(error, type) != 0;
}

std::string text_of_error(PyObject* error) {
  auto text = py::Owned<>::steal(PyObject_Str(error));
  if (!text) PyErr_Clear();
  const std::string words = text ? py::text_of(text.get()) : std::string();
  return is_side_effect(error) ? words : std::string(Py_TYPE(error)->tp_name) + ": " + words;
}

py::Owned<> attribute(PyObject* object, const char* name) { return py::take(PyObject_GetAttrString(object, name)); }

py::Owned<> tuple_of(const std::vector<std::int64_t>& numbers) {
  auto made = py::take(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), py::take(PyLong_FromLongLong(numbers[i])).release());
  return made;
}

// An object of a class in Python that is no more than its `__dict__`.
bool is_plain_object(PyObject* value) {
  constexpr Py_ssize_t kMost = sizeof(PyObject) + (2 * sizeof(void*));  // room for weak references and the dict
  const PyTypeObject* type = Py_TYPE(value);
  return type->tp_itemsize == 0 && type->tp_basicsize <= kMost && type->tp_dictoffset != 0;
}

py::Owned<> tuple_of(aten::FakeScope& fakes, const std::vector<const symbolic::Expr*>& numbers) {
  auto made = py::take(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const symbolic::Expr* const number = numbers[i];
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i),
                     number->is_constant() ? py::take(PyLong_FromLongLong(number->hint.i)).release()
                                           : fakes.number_of(number).release());
  }
  return made;
}

// Whether torch.nn.Parameter(tensor) gave it, which marks it where it keeps its class.
bool is_held_as_parameter(PyObject* tensor) {
  static PyObject* const name = py::interned("_is_param").release();
  return py::instance_attr(tensor, name) != nullptr;
}

// A class of torch itself: its code is known to read nothing of the program.
bool is_of_torch(PyTypeObject* type) {
  static PyObject* const name = py::interned("__module__").release();
  PyObject* module = py::type_lookup(type, name);
  return module != nullptr && PyUnicode_Check(module) && py::text_of(module).starts_with("torch.");
}

// The fields of an object of a dataclass of torch; null: it is none. Borrowed.
PyObject* fields_of(PyTypeObject* type) {
  static PyObject* const name = py::interned("__dataclass_fields__").release();
  PyObject* fields = is_of_torch(type) ? py::type_lookup(type, name) : nullptr;
  return fields != nullptr && PyDict_Check(fields) ? fields : nullptr;
}

// Each slot that a class statement made, as far as it is filled: its name and what it holds.
template <class F>
void each_slot(PyObject* tensor, F&& visit) {
  for (PyTypeObject* type = Py_TYPE(tensor); type != aten::tensor_type() && type != nullptr; type = type->tp_base) {
    PyObject *name = nullptr, *slot = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(type->tp_dict, &position, &name, &slot)) {
      if (!Py_IS_TYPE(slot, &PyMemberDescr_Type)) continue;
      const auto value = py::Owned<>::steal(PyMemberDescr_Type.tp_descr_get(slot, tensor, nullptr));
      if (value)
        visit(name, value.get());
      else
        PyErr_Clear();
    }
  }
}

bool are(PyObject* value, const std::vector<std::int64_t>& numbers) {
  if (!PyTuple_Check(value)) return false;
  const std::span items(PySequence_Fast_ITEMS(value), static_cast<std::size_t>(PyTuple_GET_SIZE(value)));
  return std::ranges::equal(items, numbers, [](PyObject* item, std::int64_t number) {
    return PyLong_CheckExact(item) && PyLong_AsLongLong(item) == number;
  });
}

// Torch's classes say the layout of a tensor again in what they hold (the TensorMeta of a distributed tensor): its
// sizes and its strides, which the tensor's own guard compares.
bool holds_layout(PyObject* value, const aten::Meta& meta) {
  if (!PyTuple_Check(value)) return false;
  const std::span items(PySequence_Fast_ITEMS(value), static_cast<std::size_t>(PyTuple_GET_SIZE(value)));
  return std::ranges::any_of(items, [&](PyObject* item) { return are(item, meta.sizes); }) &&
         std::ranges::any_of(items, [&](PyObject* item) { return are(item, meta.strides); });
}

// What it has under this name without asking code of its class; empty: nothing.
py::Owned<> held(PyObject* tensor, PyObject* name) {
  auto found = py::Owned<>::share(py::instance_attr(tensor, name));
  if (found) return found;
  each_slot(tensor, [&](PyObject* slot, PyObject* value) {
    if (PyUnicode_Compare(slot, name) == 0) found = py::Owned<>::share(value);
  });
  return found;
}

}  // namespace

void each_part(PyObject* tensor, const std::function<void(PyObject*)>& visit) {
  PyObject* dict = py::instance_dict_if_any(tensor);
  PyObject *key = nullptr, *part = nullptr;
  Py_ssize_t position = 0;
  while (dict != nullptr && PyDict_Next(dict, &position, &key, &part)) {
    if (aten::is_tensor(part)) visit(part);
  }
  each_slot(tensor, [&](PyObject*, PyObject* value) {
    if (aten::is_tensor(value)) visit(value);
  });
}

void each_storage(PyObject* tensor, const std::function<void(const void*)>& visit) {
  if (is_wrapper_subclass(tensor)) return each_part(tensor, [&](PyObject* part) { each_storage(part, visit); });
  visit(aten::meta_of(tensor).storage);
}

void WrapperSubclasses::refuse(PyTypeObject* type, const std::string& why) const {
  unsupported(Reason::UnsupportedTensor,
              {{"what", std::string("a tensor of class ") + type->tp_name + " (" + why + ")"}});
}

bool WrapperSubclasses::are_among(const std::vector<PyObject*>& values) const {
  if (!any()) return false;
  bool found = false;
  for (PyObject* value : values) each_tensor(value, [&](PyObject* tensor) { found |= is_wrapper_subclass(tensor); });
  return found;
}

py::Owned<> WrapperSubclasses::watched(PyObject* callable, const std::vector<PyObject*>& values, std::size_t nargs,
                                       PyObject* kwnames) {
  static PyObject* const watch = py::import_attr("pellucid._functional", "observed").release();
  static PyObject* const trace = py::import_attr("pellucid._distributed", "traced").release();
  static PyObject* const prepare = py::import_attr("pellucid._distributed", "leave_shapes_to_torch").release();
  aten::FakeScope& fakes = region_.recorder.fakes();
  if (trusted_) (void)py::take(PyObject_CallNoArgs(prepare));
  if (trusted_ && !has_met_open_) return fakes.call_classes(callable, values.data(), nargs, kwnames);
  std::vector<PyObject*> all{callable};
  all.insert(all.end(), values.begin(), values.end());
  auto seen = fakes.call_classes(trusted_ ? trace : watch, all.data(), nargs + 1, kwnames);
  if (trusted_) return seen;
  guard_reads(PyTuple_GET_ITEM(seen.get(), 1));
  return py::Owned<>::share(PyTuple_GET_ITEM(seen.get(), 0));
}

// The globals that the code has read are what they are; of a dict or an object there, only which one it is.
void WrapperSubclasses::guard_reads(PyObject* reads) {
  auto& table = region_.capture->sources;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(reads); ++i) {
    PyObject* read = PyList_GET_ITEM(reads, i);
    PyObject *dict = PyTuple_GET_ITEM(read, 0), *name = PyTuple_GET_ITEM(read, 1);
    const Source* entry = table.dict_item(table.constant(dict), name);
    if (!reads_.insert(entry).second) continue;
    const auto value = py::Owned<>::share(PyDict_GetItemWithError(dict, name));
    if (!value) continue;
    region_.provenance.note_constant(dict);
    region_.provenance.guard(Kind::ID_MATCH, entry, value.copy());
  }
}

// What the region has changed outside is changed behind the graph, and the code of the class would see it as it was.
void WrapperSubclasses::refuse_effects(PyTypeObject* type) const {
  std::vector<Effect> changes;
  region_.shadows.changes_of_containers(changes, /*as_copies=*/true);
  region_.shadows.changes_of_cells(changes);
  if (!changes.empty() || !region_.attributes.empty())
    refuse(type, "the region has changed objects that its __torch_dispatch__ may read");
}

WrapperSubclasses::Parts WrapperSubclasses::parts_of(PyObject* tensor) {
  PyTypeObject* type = Py_TYPE(tensor);
  const bool jagged = is_jagged(tensor);
  const Trust trust(*this, is_of_torch(type));
  py::Owned<> flat;
  try {
    const auto flatten = attribute(tensor, "__tensor_flatten__");
    flat = jagged ? py::take(PyObject_CallNoArgs(flatten.get())) : watched(flatten.get(), {}, 0, nullptr);
  } catch (const py::PythonError& error) {
    refuse(type, "its __tensor_flatten__ fails or has a side effect: " + text_of_error(error.value()));
  }
  const bool is_pair = PyTuple_Check(flat.get()) && PyTuple_GET_SIZE(flat.get()) == 2;
  PyObject* names = is_pair ? PyTuple_GET_ITEM(flat.get(), 0) : Py_None;
  if (!PyList_Check(names) && !PyTuple_Check(names)) refuse(type, "its __tensor_flatten__ gives no names and context");
  Parts parts;
  parts.context = py::Owned<>::share(PyTuple_GET_ITEM(flat.get(), 1));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(names); ++i) {
    PyObject* name = PySequence_Fast_GET_ITEM(names, i);
    auto value = jagged                  ? py::take(PyObject_GetAttr(tensor, name))  // some in a dict that it holds
                 : PyUnicode_Check(name) ? held(tensor, name)
                                         : py::Owned<>();
    if (!value && PyUnicode_Check(name) && is_of_torch(type)) {
      auto given = py::Owned<>::steal(PyObject_GetAttr(tensor, name));
      if (!given) PyErr_Clear();
      if (given && aten::is_opaque_type(Py_TYPE(given.get()))) {
        parts.opaque.emplace_back(py::Owned<>::share(name), std::move(given));
        continue;
      }
    }
    if (!value || cat_of(value.get()) != Cat::Tensor) refuse(type, "a part of it is no tensor that it holds itself");
    parts.names.push_back(py::Owned<>::share(name));
    parts.tensors.push_back(std::move(value));
  }
  return parts;
}

// What `__tensor_flatten__` reads of the tensor is its `__dict__`, all of which is guarded. So no Python code has to
// run at each call to compare the context.
void WrapperSubclasses::guard_contents(PyObject* real, const Parts& parts, const aten::OpenShape* shape) {
  PyTypeObject* type = Py_TYPE(real);
  if (is_jagged(real)) return guard_jagged(region_, real);
  const bool says_it_again = shape != nullptr && is_of_torch(type);
  said_layout_ = says_it_again ? std::optional(aten::meta_of(real)) : std::nullopt;
  guard_slots(real, parts);
  PyObject* dict = py::instance_dict_if_any(real);
  if (dict == nullptr && is_of_torch(type)) return;
  if (dict == nullptr || region_.shadows.is_shadowed(dict)) refuse(type, "the region has set attributes of it");
  auto& table = region_.capture->sources;
  if (!region_.provenance.is_outside(dict))
    region_.provenance.note_existing(dict, table.dict_of(region_.provenance.source_of(real)));
  region_.reads.touch(dict);
  for (const auto& [key, value] : entries_now(dict)) {
    PyObject* const held = value.get();
    const auto is_it = [held](const py::Owned<>& part) { return part.get() == held; };
    if (is_size_mark(key.get())) continue;  // a wish, which nobody computes with
    if (std::ranges::none_of(parts.tensors, is_it)) guard_value(held, type);
  }
}

void WrapperSubclasses::guard_slots(PyObject* real, const Parts& parts) {
  auto& table = region_.capture->sources;
  each_slot(real, [&](PyObject* name, PyObject* value) {
    region_.provenance.note_read(value, table.member(region_.provenance.source_of(real), name));
    const auto is_it = [value](const py::Owned<>& part) { return part.get() == value; };
    if (std::ranges::none_of(parts.tensors, is_it)) guard_value(value, Py_TYPE(real));
  });
}

// A tuple that says the layout of the tensor again, where that is open: its other items are guarded.
bool WrapperSubclasses::guard_said_layout(PyObject* value, const Source* source, PyTypeObject* type, int depth) {
  if (!said_layout_ || !holds_layout(value, *said_layout_)) return false;
  region_.provenance.guard(Kind::TYPE_MATCH, source, py::Owned<>::share(reinterpret_cast<PyObject*>(Py_TYPE(value))));
  region_.provenance.guard(Kind::LENGTH, source, {}, PyTuple_GET_SIZE(value));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    const auto item = py::Owned<>::share(PyTuple_GET_ITEM(value, i));
    if (are(item.get(), said_layout_->sizes) || are(item.get(), said_layout_->strides)) continue;
    region_.provenance.note_read(item.get(), region_.capture->sources.item(source, i));
    guard_value(item.get(), type, depth + 1);
  }
  return true;
}

// Objects of such a class are their fields. What else they hold is computed of these.
void WrapperSubclasses::guard_fields(PyObject* value, PyTypeObject* type, int depth) {
  auto& table = region_.capture->sources;
  PyObject* fields = fields_of(Py_TYPE(value));
  PyObject *name = nullptr, *field = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(fields, &position, &name, &field)) {
    const auto item = py::Owned<>::share(py::instance_attr(value, name));
    if (!item) refuse(type, "what it holds lacks a field");
    const Source* const source = table.instance_attr(region_.provenance.source_of(value), name);
    if (guard_said_layout(item.get(), source, type, depth)) continue;
    region_.provenance.note_read(item.get(), source);
    guard_value(item.get(), type, depth + 1);
  }
}

void WrapperSubclasses::guard_value(PyObject* value, PyTypeObject* type, int depth) {
  const Cat cat = cat_of(value);
  if (aten::is_opaque_type(Py_TYPE(value)) && region_.provenance.is_outside(value))
    return region_.provenance.guard_identity(value);
  const auto unknown = [&] {
    refuse(type, std::string("what it holds cannot be compared: a ") + Py_TYPE(value)->tp_name);
  };
  if (cat != Cat::Instance) {
    const Contents inside = region_.reads.deep_touch(value);
    return inside.is_plain() ? void() : unknown();
  }
  const auto made =
      is_plain_object(value) && depth < kDeepest ? py::take(PyObject_GenericGetDict(value, nullptr)) : py::Owned<>();
  PyObject* dict = made.get();
  if (dict == nullptr || !region_.provenance.is_outside(value)) return unknown();
  if (fields_of(Py_TYPE(value)) != nullptr) return guard_fields(value, type, depth);
  if (region_.shadows.is_shadowed(dict)) return unknown();
  auto& table = region_.capture->sources;
  const Source* source = region_.provenance.source_of(value);
  const bool constant = source->step == source::Step::Const;
  if (!region_.provenance.is_outside(dict))
    region_.provenance.note_existing(dict, constant ? table.constant(dict) : table.dict_of(source));
  region_.reads.touch(dict);
  for (const auto& [key, item] : entries_now(dict)) guard_value(item.get(), type, depth + 1);
}

py::Owned<> WrapperSubclasses::fake_of(PyObject* real) {
  PyTypeObject* type = Py_TYPE(real);
  guard_traced_subclass(region_, type);
  const bool jagged = is_jagged(real);
  if (!jagged && !aten::has_own_layout(real)) refuse(type, "Python code says its sizes, or it is a view");
  if (jagged && !is_for_compilers(region_, real)) refuse(type, kNotCompiled);
  Parts parts = parts_of(real);
  const aten::OpenShape* const shape = jagged ? nullptr : region_.numbers.tensors.shape_of(real);
  guard_contents(real, parts, shape);
  const Trust trust(*this, is_of_torch(type));
  aten::FakeScope& fakes = region_.recorder.fakes();
  const bool is_fixed = is_held_as_parameter(real) && !region_.numbers.policy.parameters;
  auto inner = py::take(PyDict_New());
  for (std::size_t i = 0; i < parts.names.size(); ++i) {
    const py::Owned<> held = parts.tensors[i].copy();
    PyObject* part = held.get();
    const aten::OpenShape* of_part = region_.numbers.tensors.shape_of(part);
    if (of_part != nullptr && jagged && i == 0) fix_ragged_stride(region_, real, *of_part);
    if (of_part != nullptr && !jagged) {
      if (is_fixed) region_.numbers.tensors.fix(*of_part, "a part of a parameter");
      has_met_open_ = true;
      parts.open.push_back(of_part);
    }
    if (is_subclassed(part) && !is_wrapper_subclass(part)) refuse(Py_TYPE(part), "as a part of another tensor");
    parts.tensors[i] = is_wrapper_subclass(part) ? fake_of(part) : fakes.fake_of(part, of_part);
    region_.shadows.note_stand_in(parts.tensors[i].get(), held.get());
    region_.provenance.keep(parts.tensors[i].get());
    py::check(PyDict_SetItem(inner.get(), parts.names[i].get(), parts.tensors[i].get()));
  }
  for (const auto& [name, value] : parts.opaque) py::check(PyDict_SetItem(inner.get(), name.get(), value.get()));
  static PyObject* const size_type = py::import_attr("torch", "Size").release();
  const aten::Meta meta = aten::meta_of(real);
  has_met_open_ = has_met_open_ || shape != nullptr;
  const auto stride = shape != nullptr ? tuple_of(fakes, shape->strides) : tuple_of(meta.strides);
  const auto lengths = shape != nullptr ? tuple_of(fakes, shape->sizes) : tuple_of(meta.sizes);
  const auto size = py::take(PyObject_CallOneArg(size_type, lengths.get()));
  py::Owned<> made;
  try {
    made = jagged ? jagged_like(fakes, real, inner.get())
                  : watched(attribute(reinterpret_cast<PyObject*>(type), "__tensor_unflatten__").get(),
                            {inner.get(), parts.context.get(), size.get(), stride.get()}, 4, nullptr);
  } catch (const py::PythonError& error) {
    refuse(type, "its __tensor_unflatten__ fails or has a side effect: " + text_of_error(error.value()));
  }
  if (Py_TYPE(made.get()) != type || !aten::make_alike(made.get(), real))
    refuse(type, "its __tensor_unflatten__ gives another tensor");
  if (!jagged) join_sizes(made.get(), meta, shape);
  const Parts again = parts_of(made.get());
  const auto same = [](const py::Owned<>& a, const py::Owned<>& b) { return a.get() == b.get(); };
  if (!std::ranges::equal(parts.tensors, again.tensors, same))
    refuse(type, "its parts are others when it is made anew");
  region_.provenance.keep(made.get());
  parts_of_.emplace(made.get(), std::move(parts));
  return made;
}

// What the class says of the sizes of the tensor that it makes anew, and what the tensor's own guard says, is the same.
void WrapperSubclasses::join_sizes(PyObject* made, const aten::Meta& meta, const aten::OpenShape* shape) {
  aten::FakeScope& fakes = region_.recorder.fakes();
  const aten::OpenShape now = fakes.open_shape(made);
  if (now.sizes.empty() && shape == nullptr) return;
  symbolic::Space& space = region_.numbers.space();
  const auto join = [&](const std::vector<const symbolic::Expr*>& of_made, const std::vector<std::int64_t>& plain,
                        const std::vector<const symbolic::Expr*>* wanted) {
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const symbolic::Expr* const constant = space.constant(symbolic::Value::of(plain[i]));
      const symbolic::Expr* const a = of_made.empty() ? constant : of_made[i];
      const symbolic::Expr* const b = wanted == nullptr ? constant : (*wanted)[i];
      const symbolic::Expr* const same = symbolic::compare(space, symbolic::Comparison::Eq, a, b);
      if (same == nullptr || !region_.numbers.decide(same))
        refuse(Py_TYPE(made), "its __tensor_unflatten__ gives other sizes");
    }
  };
  join(now.sizes, meta.sizes, shape == nullptr ? nullptr : &shape->sizes);
  join(now.strides, meta.strides, shape == nullptr ? nullptr : &shape->strides);
}

void WrapperSubclasses::each_open_part(PyObject* fake, const std::function<void(const aten::OpenShape&)>& visit) const {
  const auto found = parts_of_.find(fake);
  if (found == parts_of_.end()) return;
  for (const aten::OpenShape* shape : found->second.open) visit(*shape);
  for (const auto& part : found->second.tensors) each_open_part(part.get(), visit);
}

bool WrapperSubclasses::is_bound(PyObject* callable) {
  if (!PyType_HasFeature(Py_TYPE(callable), Py_TPFLAGS_HEAPTYPE)) return false;  // which its Python class is
  static PyObject* const bound = py::import_attr("pellucid._distributed", "Bound").release();
  return reinterpret_cast<PyObject*>(Py_TYPE(callable)) == bound;
}

void WrapperSubclasses::check_result(PyObject* result, PyObject* target) {
  if (is_fake(result)) return;
  PyTypeObject* type = Py_TYPE(result);
  if (!is_wrapper_class(type)) refuse(type, "given by " + py::repr_of(target));
  guard_traced_subclass(region_, type);
  if (!is_jagged(result) && !aten::has_own_layout(result) && !aten::has_open_layout(result) && !aten::is_view(result))
    refuse(type, "Python code says its sizes");
  if (is_jagged(result) && !is_for_compilers(region_, result)) refuse(type, kNotCompiled);
  if (aten::is_leaf_with_grad(result)) refuse(type, "a leaf that requires gradients");
  Parts parts = parts_of(result);
  for (const auto& part : parts.tensors) {
    if (is_wrapper_subclass(part.get())) {
      check_result(part.get(), target);
    } else if (!aten::is_fake(part.get()) || is_subclassed(part.get())) {
      refuse(type, "a part of it is no result of an operator");
    }
  }
  region_.provenance.keep(result);
  for (const auto& part : parts.tensors) region_.provenance.keep(part.get());
  parts_of_.emplace(result, std::move(parts));
}

void WrapperSubclasses::note_input(PyObject* fake) {
  if (region_.numbers.policy.runs_as_captured()) return;
  each_storage(fake, [&](const void* storage) {
    Memory& memory = memory_[storage];
    ++memory.inputs;
    memory.is_part |= is_wrapper_subclass(fake);
    refuse_second(memory);
  });
}

void WrapperSubclasses::note_writes(const std::vector<aten::HeldStorage>& written) {
  if (region_.numbers.policy.runs_as_captured()) return;
  for (const aten::HeldStorage& held : written) {
    Memory& memory = memory_[held.get()];
    memory.is_written = true;
    refuse_second(memory);
  }
}

void WrapperSubclasses::refuse_second(const Memory& memory) {
  if (memory.is_part && memory.is_written && memory.inputs > 1)
    unsupported(Reason::UnsupportedMutation, {{"target", kBesideWrapper}});
}

// Of a tensor around tensors that a call has written to, or of a part of it: the same parts have other elements. What
// autograd knows of it is as before.
void WrapperSubclasses::check_written(PyObject* tensor, const aten::Meta& before) {
  const auto refuse_write = [&] {
    unsupported(Reason::UnsupportedMutation,
                {{"target", std::string("a tensor of class ") + Py_TYPE(tensor)->tp_name}});
  };
  const aten::Meta now = aten::meta_of(tensor);
  if (now.requires_grad != before.requires_grad || (now.requires_grad && aten::records_gradients())) refuse_write();
  const bool is_compiled = !region_.numbers.policy.runs_as_captured();
  if (is_compiled && (now.sizes != before.sizes || now.strides != before.strides)) refuse_write();
  const auto known = parts_of_.find(tensor);
  if (known == parts_of_.end()) {
    const auto has_it = [&](const auto& entry) {
      return std::ranges::any_of(entry.second.tensors, [&](const py::Owned<>& part) { return part.get() == tensor; });
    };
    if (std::ranges::none_of(parts_of_, has_it)) refuse_write();
    return;
  }
  if (is_jagged(tensor) || (is_compiled && aten::is_view(tensor))) refuse_write();
  const auto is_same = [](const py::Owned<>& a, const py::Owned<>& b) { return a.get() == b.get(); };
  const Parts parts = parts_of(tensor);
  if (!std::ranges::equal(known->second.tensors, parts.tensors, is_same)) refuse_write();
}

py::Owned<> WrapperSubclasses::call(PyObject* callable, const std::vector<PyObject*>& values, std::size_t nargs,
                                    PyObject* kwnames) {
  struct Seen {
    PyObject* tensor;
    std::uint32_t version;
    const void* storage;
    aten::Meta meta;
  };
  const bool jagged = makes_jagged(callable) || are_jagged(values);
  std::vector<Seen> seen;
  auto* type = PyType_Check(callable) ? reinterpret_cast<PyTypeObject*>(callable) : nullptr;
  const auto note = [&](PyObject* tensor) {
    aten::Meta meta = aten::meta_of(tensor);
    const void* const storage = meta.storage;
    seen.push_back({tensor, aten::version_of(tensor), storage, std::move(meta)});
  };
  const auto note_parts = [&](auto& self, PyObject* tensor) -> void {
    note(tensor);
    if (const auto parts = parts_of_.find(tensor); parts != parts_of_.end()) {
      type = Py_TYPE(tensor);
      for (const auto& part : parts->second.tensors) self(self, part.get());
    } else if (!jagged && !region_.recorder.fakes().open_shape(tensor).sizes.empty()) {
      has_met_open_ = true;
    }
  };
  for (PyObject* value : values) each_tensor(value, [&](PyObject* tensor) { note_parts(note_parts, tensor); });
  if (type == nullptr) type = aten::tensor_type();
  const Trust trust(*this, is_bound(callable) || is_of_torch(type));
  if (!trusted_) refuse_effects(type);
  py::Owned<> result;
  try {
    result =
        jagged ? call_jagged(region_, callable, values, nargs, kwnames) : watched(callable, values, nargs, kwnames);
  } catch (const py::PythonError& error) {
    if (!is_side_effect(error.value())) throw;
    refuse(type, "its __torch_dispatch__ has a side effect: " + text_of_error(error.value()));
  }
  const auto& written = aten::facts_so_far().written;
  for (const Seen& one : seen) {
    const auto is_its = [&](const auto& held) { return held.get() == one.storage; };
    if (aten::version_of(one.tensor) != one.version || std::ranges::any_of(written, is_its))
      check_written(one.tensor, one.meta);
  }
  return result;
}

}  // namespace pellucid::region
