#include "region/deferred.h"

#include <algorithm>

#include "region/region.h"
#include "region/snapshot.h"

namespace pellucid::region {
namespace {

// The arguments of deferred calls are private copies: exact tuples, lists and dicts, finitely deep.
template <class Visit>
void each_tensor_below(PyObject* value, Visit&& visit) {
  if (cat_of(value) == Cat::Tensor) {
    visit(value);
  } else if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    for (const auto& item : items_now(value)) each_tensor_below(item.get(), visit);
  } else if (PyDict_CheckExact(value)) {
    for (const auto& [key, item] : entries_now(value)) each_tensor_below(item.get(), visit);
  }
}

py::Owned<> with_tensors(PyObject* value, const std::unordered_map<PyObject*, PyObject*>& in_place_of) {
  if (const auto found = in_place_of.find(value); found != in_place_of.end()) return py::Owned<>::share(found->second);
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    auto list = py::take(PyList_New(0));
    for (const auto& item : items_now(value))
      py::check(PyList_Append(list.get(), with_tensors(item.get(), in_place_of).get()));
    return PyTuple_CheckExact(value) ? py::take(PyList_AsTuple(list.get())) : std::move(list);
  }
  if (PyDict_CheckExact(value)) {
    auto dict = py::take(PyDict_New());
    for (const auto& [key, item] : entries_now(value))
      py::check(PyDict_SetItem(dict.get(), key.get(), with_tensors(item.get(), in_place_of).get()));
    return dict;
  }
  return py::Owned<>::share(value);
}

}  // namespace

void Deferred::append(PyObject* callable, PyObject* args, PyObject* kwargs) {
  ++region_.outside_writes;
  Effect effect;
  effect.kind = Effect::Kind::Call;
  effect.value = py::Owned<>::share(callable);
  effect.args = py::Owned<>::share(args);
  effect.kwargs = py::Owned<>::share(kwargs);
  calls_.push_back(std::move(effect));
}

void Deferred::add(PyObject* callable, PyObject* args, PyObject* kwargs) {
  append(callable, args, kwargs);
  watch(args);
  watch(kwargs);
}

void Deferred::add_on_objects(PyObject* callable, PyObject* args) {
  append(callable, args, py::take(PyDict_New()).get());
}

void Deferred::add_hook(PyObject* callable, PyObject* args, PyObject* kwargs) {
  append(callable, args, kwargs);
  each_tensor_below(args, [&](PyObject* tensor) { note_hooked(tensor); });
}

void Deferred::note_hooked(PyObject* tensor) {
  hooked_.emplace_back(py::Owned<>::share(tensor), aten::version_of(region_.recorder.fake_or_itself(tensor)));
}

bool Deferred::is_hooked(PyObject* tensor) const {
  return std::ranges::any_of(hooked_, [&](const auto& hooked) { return hooked.first.get() == tensor; });
}

void Deferred::add_in_order(PyObject* callable, PyObject* args, PyObject* kwargs) {
  for (PyObject* object : region_.shadows.in_order()) {
    const Shadow& shadow = *region_.shadows.find(object);
    PyTypeObject* type = Py_TYPE(shadow.object.get());
    if (shadow.changed && !is_exact_builtin(type) && cat_of(type) != Cat::Deque &&
        !PyODict_CheckExact(shadow.object.get()))
      unsupported(Reason::SideEffect, {{"callee", "a logging call after a change of a " + std::string(type->tp_name)}});
  }
  if (!region_.attributes.empty())
    unsupported(Reason::SideEffect, {{"callee", "a logging call after a change of slots or of a class"}});
  add_changes(region_, calls_, true);
  add(callable, args, kwargs);
  looks_at_changes_ = true;
}

void Deferred::watch(PyObject* value) {
  each_tensor_below(value, [&](PyObject* tensor) {
    PyObject* watched = region_.recorder.fake_or_itself(tensor);
    tensors_.push_back(
        {calls_.size() - 1, py::Owned<>::share(tensor), {}, aten::version_of(watched), aten::meta_of(watched).sizes});
  });
}

// An operator has just written into tensors, its node is not recorded yet: copies come before it.
void Deferred::freeze_written() {
  static PyObject* const clone = py::import_attr("torch", "clone").release();
  for (const auto& [tensor, version] : hooked_) {  // the hook is of what computed the tensor before
    PyObject* watched = region_.recorder.fake_or_itself(tensor.get());
    if (aten::version_of(watched) != version && !aten::meta_of(watched).is_leaf)
      unsupported(Reason::SideEffect, {{"callee", "a hook on a tensor that is written to later"}});
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    LateTensor& late = tensors_[i];
    PyObject* tensor = late.tensor.get();
    PyObject* watched = region_.recorder.fake_or_itself(tensor);
    if (late.frozen || aten::version_of(watched) == late.version) continue;
    if (aten::meta_of(watched).sizes != late.sizes)
      unsupported(Reason::SideEffect, {{"callee", "logging a tensor that changes its shape later"}});
    PyObject* args[] = {tensor};
    auto frozen = region_.recorder.torch_call(graph::Op::CallFunction, clone, clone, Args{args, nullptr}).value;
    tensors_[i].frozen = std::move(frozen);
  }
}

std::int64_t Deferred::take_back(std::size_t count) {
  const auto taken = static_cast<std::int64_t>(calls_.size() - count);
  std::erase_if(tensors_, [&](const LateTensor& late) { return late.call >= count; });
  calls_.resize(count);
  region_.outside_writes -= taken;
  return taken;
}

void Deferred::put_frozen() {
  std::unordered_map<PyObject*, PyObject*> frozen;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const LateTensor& late = tensors_[i];
    if (late.frozen) frozen.emplace(late.tensor.get(), late.frozen.get());
    const bool last = i + 1 == tensors_.size() || tensors_[i + 1].call != late.call;
    if (!last) continue;
    Effect& call = calls_[late.call];
    if (!frozen.empty()) {
      call.args = with_tensors(call.args.get(), frozen);
      call.kwargs = with_tensors(call.kwargs.get(), frozen);
    }
    frozen.clear();
  }
}

void Deferred::take_calls(std::vector<Effect>& out) {
  put_frozen();
  for (Effect& call : calls_) out.push_back(std::move(call));
}

}  // namespace pellucid::region
