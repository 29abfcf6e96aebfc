// scan below torch.vmap (pellucid/polyfills_scan.py): its operator is called below all levels, and its body enters
// them.
#include <algorithm>

#include "aten/layers.h"
#include "graph/bodies.h"
#include "region/snapshot.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

[[noreturn]] void refuse_body(const char* what) {
  unsupported(Reason::ImpureBody, {{"callee", "scan()"}, {"what", what}});
}

// innermost_level(operator): (number, size, randomness), or None.
Result innermost_level(Interpreter& t, PyObject*, Args) {
  if (!aten::is_below_transform()) return Result::none();
  const aten::LevelKinds levels = aten::level_kinds();
  if (levels.grad || levels.forward || levels.others)
    refuse_body("is below a transform of torch.func that is no torch.vmap()");
  return parts_of_innermost_level(t);
}

// leave_level(): the region cannot end until the level is entered again.
Result leave_level(Interpreter& t, PyObject*, Args) {
  static PyObject* const leave = py::import_attr("torch._functorch.predispatch", "_vmap_decrement_nesting").release();
  Result left = state_switch(t, leave, {});
  ++t.region.recorder.levels.left;
  return left.is_value() ? Result::none() : std::move(left);
}

// enter_level(size, randomness): again, as the same number.
Result enter_level(Interpreter& t, PyObject*, Args args) {
  static PyObject* const enter = py::import_attr("torch._functorch.predispatch", "_vmap_increment_nesting").release();
  Result entered = switch_level(t, enter, args);
  --t.region.recorder.levels.left;
  return entered.is_value() ? Result::none() : std::move(entered);
}

// mapped_operands(but): the tensors from outside that the open body uses and that have levels.
Result mapped_operands(Interpreter& t, PyObject*, Args args) {
  const graph::Body& body = *t.region.capture->bodies->graph().body;
  std::vector<const graph::Node*> known;
  for (const auto& item : region::items_now(args[0])) known.push_back(t.region.recorder.node_of(item.get()));
  std::vector<PyObject*> mapped;
  for (const graph::Node* operand : body.operands) {
    PyObject* fake = operand->example_value.get();
    if (fake == nullptr || !aten::is_tensor(fake) || !aten::is_wrapper(fake)) continue;
    if (std::ranges::find(known, operand) != known.end()) continue;
    if (t.region.recorder.node_of(fake) == nullptr) refuse_body("it uses a tensor of torch.vmap() from outside");
    mapped.push_back(fake);
  }
  return Result::of(tuple_of(mapped));
}

// strides_at_bottom(tensor): numbers of the region where sizes are open.
Result strides_at_bottom(Interpreter& t, PyObject*, Args args) {
  static PyObject* const ask = py::import_attr("pellucid._bodies", "strides_at_bottom").release();
  const auto fake = t.region.recorder.lift(args[0]);
  const auto strides = py::take(PyObject_CallOneArg(ask, fake.get()));
  return Result::of(t.region.recorder.from_torch(strides.get()));
}

// stand_for(tensor, other): in the open body, and in bodies within it.
Result stand_for(Interpreter& t, PyObject*, Args args) {
  graph::Bodies& bodies = *t.region.capture->bodies;
  graph::Body& body = *bodies.graph().body;
  graph::Node* outer = bodies.in_outer(t.region.recorder.node_of(args[0]));
  body.inside[outer] = t.region.recorder.bodies.here(args[1]);
  return Result::none();
}

const Row rows[] = {
    {"pellucid.polyfills_scan.innermost_level", innermost_level},
    {"pellucid.polyfills_scan.leave_level", leave_level},
    {"pellucid.polyfills_scan.enter_level", enter_level, true, true},
    {"pellucid.polyfills_scan.mapped_operands", mapped_operands},
    {"pellucid.polyfills_scan.strides_at_bottom", strides_at_bottom},
    {"pellucid.polyfills_scan.stand_for", stand_for},
};

}  // namespace

const std::span<const Row> kScanRows = rows;

}  // namespace pellucid::rows
