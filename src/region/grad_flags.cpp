#include "region/grad_flags.h"

#include <algorithm>
#include <utility>

#include "aten/gradients.h"
#include "aten/layers.h"
#include "region/names.h"
#include "region/region.h"
#include "region/subclasses.h"

namespace pellucid::region {
namespace {

PyObject* method(const char* name) {
  return py::take(PyObject_GetAttrString(py::import_attr("torch", "Tensor").get(), name)).release();
}

bool has_layout(const aten::Meta& one, const aten::Meta& other) {
  return one.storage == other.storage && one.storage_offset == other.storage_offset && one.sizes == other.sizes &&
         one.strides == other.strides;
}

[[noreturn]] void refuse() {
  unsupported(Reason::UnsupportedMutation, {{"target", "a tensor whose requires_grad the region has changed"}});
}

}  // namespace

std::string GradFlags::obstacle(PyObject* tensor) const {
  if (is_subclassed(tensor) || aten::layout_kind(tensor) != aten::Layout::Strided) return "of such a tensor";
  const auto fake = region_.recorder.lift(tensor);
  if (!aten::meta_of(fake.get()).is_leaf) return "of a tensor that is no leaf";
  if (region_.capture->bodies->is_open() || !region_.late_audits.empty()) return "where a block runs again";
  if (aten::is_below_transform()) return "below a transform of torch.func";
  if (aten::is_inference(tensor) || aten::in_inference_mode()) return "in inference mode";
  const auto base = aten::base_of_view(fake.get());
  if (base && aten::meta_of(base.get()).requires_grad) return "of a view of a leaf";
  if (region_.deferred.is_hooked(tensor) || region_.deferred.may_see_flags())
    return "where a call that waits may see it";
  return "";
}

GradFlags::Flag& GradFlags::flag_of(PyObject* tensor, PyObject* fake) {
  const auto [entry, is_new] = flags_.try_emplace(fake);
  Flag& flag = entry->second;
  if (!is_new) return flag;
  flag.tensor = py::Owned<>::share(tensor);
  flag.before = flag.now = aten::meta_of(fake).requires_grad;
  flag.own = flag.alias = nullptr;
  flag.changed_at = 0;
  order_.push_back(fake);
  region_.provenance.keep(fake);
  region_.capture->flagged[fake].step = region_.steps;
  return flag;
}

// One node, or two: the alias of a tensor that requires no gradients is a leaf of the graph.
void GradFlags::make_alias(Flag& flag, PyObject* fake) {
  static PyObject* const detach = method("detach");
  static PyObject* const requires_grad = method("requires_grad_");
  static PyObject* const names[] = {py::interned("detach").release(), py::interned("requires_grad_").release()};
  Recorder& recorder = region_.recorder;
  PyObject* given = flag.tensor.get();
  Result made = recorder.torch_call(graph::Op::CallMethod, detach, names[0], Args{{&given, 1}, nullptr});
  const auto alias = std::move(made.value);
  given = alias.get();
  if (!flag.before)
    (void)recorder.torch_call(graph::Op::CallMethod, requires_grad, names[1], Args{{&given, 1}, nullptr});
  flag.alias = recorder.node_of(given);
  region_.capture->flagged[fake].aliases.push_back(alias.get());  // its node keeps it
  flag.layout = aten::meta_of(fake);
}

void GradFlags::set(PyObject* tensor, bool on) {
  refuse_lost_leaf(region_, "requires_grad_()");
  const auto fake = region_.recorder.lift(tensor);
  Flag& flag = flag_of(tensor, fake.get());
  if (flag.now == on) return;
  put(flag, fake.get(), on);
  flag.changed_at = region_.capture->graph.nodes().size();
  ++region_.outside_writes;
}

void GradFlags::put(Flag& flag, PyObject* fake, bool on) {
  static PyObject* const requires_grad = method("requires_grad_");
  auto& node_of = region_.capture->node_of;
  graph::Node* node = region_.recorder.node_of(fake);
  if (on == flag.before) {
    flag.alias = std::exchange(node, flag.own);
  } else {
    flag.own = node;
    if (flag.alias == nullptr || !has_layout(flag.layout, aten::meta_of(fake))) make_alias(flag, fake);
    node = flag.alias;
  }
  PyObject* values[] = {fake, on ? Py_True : Py_False};
  (void)region_.recorder.fakes().call(requires_grad, values, 2, nullptr);
  flag.now = on;
  node_of[flag.tensor.get()] = node_of[fake] = node;
}

void GradFlags::while_on(const std::vector<PyObject*>& leaves, const std::function<void()>& run) {
  std::vector<PyObject*> put_on;
  const auto put_back = [&] {
    for (PyObject* fake : put_on) put(flags_.at(fake), fake, false);
  };
  for (PyObject* leaf : leaves) {
    const auto found = flags_.find(region_.recorder.fake_or_itself(leaf));
    if (found == flags_.end() || found->second.now) continue;
    put(found->second, found->first, true);
    put_on.push_back(found->first);
  }
  try {
    run();
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

std::vector<PyObject*> GradFlags::used_before_change() const {
  std::vector<PyObject*> used;
  for (PyObject* fake : order_) {
    const auto& aliases = region_.capture->flagged.at(fake).aliases;
    const std::size_t end = flags_.at(fake).changed_at;
    const auto is_it = [&](PyObject* value) {
      return value == fake || std::ranges::find(aliases, value) != aliases.end();
    };
    const auto uses = [&](const graph::Node* node) {
      if (static_cast<std::size_t>(node->index) >= end || is_it(node->example_value.get())) return false;
      bool any = false;
      graph::for_each_input(*node, [&](const graph::Node* input) { any |= is_it(input->example_value.get()); });
      return any;
    };
    if (std::ranges::any_of(region_.capture->graph.nodes(), uses)) used.push_back(fake);
  }
  return used;
}

bool GradFlags::is_aliased(PyObject* tensor) const {
  const auto found = flags_.find(region_.recorder.fake_or_itself(tensor));
  return found != flags_.end() && found->second.now != found->second.before;
}

// Of the leaf itself, or of that which it is a view of.
const GradFlags::Flag* GradFlags::behind(PyObject* fake, PyObject** leaf) const {
  if (flags_.empty()) return nullptr;
  auto found = flags_.find(fake);
  if (found == flags_.end()) {
    const auto base = aten::base_of_view(fake);
    found = base ? flags_.find(base.get()) : flags_.end();
  }
  if (found == flags_.end()) return nullptr;
  *leaf = found->first;
  return &found->second;
}

// A view that was made before a write asks its base once more where its gradients go: the graph has another base.
void GradFlags::check_given(PyObject* fake) const {
  PyObject* leaf = nullptr;
  if (behind(fake, &leaf) != nullptr && leaf != fake && aten::is_written_since_made(fake)) refuse();
}

void GradFlags::check_done(PyObject* fake) const {
  PyObject* leaf = nullptr;
  const Flag* flag = behind(fake, &leaf);
  if (flag == nullptr || flag->now == flag->before) return;
  const aten::Meta meta = aten::meta_of(leaf);
  if (!meta.is_leaf || meta.requires_grad != flag->now || !has_layout(flag->layout, meta)) refuse();
}

void GradFlags::changes(std::vector<Effect>& out) const {
  for (PyObject* fake : order_) {
    const Flag& flag = flags_.at(fake);
    if (flag.now == flag.before) continue;
    Effect& effect = out.emplace_back();
    effect.kind = Effect::Kind::SetAttr;
    effect.target = flag.tensor.copy();
    effect.name = py::Owned<>::share(names().requires_grad);
    effect.value = py::Owned<>::share(flag.now ? Py_True : Py_False);
  }
}

void GradFlags::finish() {
  static PyObject* const requires_grad = method("requires_grad_");
  static PyObject* const detach = method("detach_");
  for (const auto& [fake, flag] : flags_) {
    if (flag.now == flag.before) continue;
    PyObject* values[] = {fake, flag.before ? Py_True : Py_False};
    if (!aten::meta_of(fake).is_leaf) {  // by a write that is no part of the region
      if (aten::base_of_view(fake)) refuse();
      (void)region_.recorder.fakes().call(detach, values, 1, nullptr);
    }
    (void)region_.recorder.fakes().call(requires_grad, values, 2, nullptr);
  }
}

}  // namespace pellucid::region
