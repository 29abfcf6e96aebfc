// The end of a capture: net effects on what existed before, and the guards that keep objects apart.
#include "region/body_audit.h"
#include "region/region.h"
#include "region/snapshot.h"

namespace pellucid::region {

void add_changes(Region& region, std::vector<Effect>& out, bool as_copies) {
  region.shadows.changes_of_containers(out, as_copies);
  region.attributes.changes(out);
  region.shadows.changes_of_cells(out);
}

namespace {

void add_effects(Region& region) {
  auto& effects = region.capture->effects;
  region.iterators.changes(effects);  // first: an iterator over a dict that has changed would not advance
  region.generators.changes(effects);
  for (Effect& closed : region.closed_frames) effects.push_back(std::move(closed));
  region.function_modes.leave_changes();
  region.grad_flags.changes(effects);  // calls that wait may see them, and nothing that they see changes later
  region.deferred.take_calls(effects);
  add_changes(region, effects, false);
}

// All tensors are pairwise different objects (equal sources were merged when they were read).
void guard_tensors_apart(Region& region) {
  std::vector<const Source*> tensors;
  for (PyObject* object : region.provenance.existing()) {
    if (cat_of(object) == Cat::Tensor) tensors.push_back(region.provenance.source_of(object));
  }
  region.doing = "uses these tensors as different objects";
  region.provenance.guard_distinct(tensors);
}

void guard_keys_apart(Region& region) {
  std::vector<const Source*> keys;
  std::unordered_set<PyObject*> met;
  bool known = true;
  for (PyObject* key : region.reads.keys()) {
    if (!met.insert(key).second) continue;
    keys.push_back(region.provenance.source_of(key));
    known = known && keys.back()->step == source::Step::Const;
  }
  region.doing = "uses these objects as different keys";
  if (!known) region.provenance.guard_distinct(keys);
}

// A container that the region changes must not be reachable by another name it read.
void guard_changed_apart(Region& region) {
  Provenance& provenance = region.provenance;
  region.doing = "changes an object";
  for (PyObject* changed : region.shadows.in_order()) {
    const Shadow* shadow = region.shadows.find_as_it_is(changed);
    if (shadow == nullptr || !shadow->changed) continue;
    const Source* source = provenance.source_of(changed);
    for (PyObject* other : provenance.existing()) {
      if (other == changed || Py_TYPE(other) != Py_TYPE(changed)) continue;
      const Source* second = provenance.source_of(other);
      if (source->step == source::Step::Const && second->step == source::Step::Const) continue;
      provenance.guard(Kind::IS_NOT, source, {}, 0, second);
    }
  }
}

// The net effect on a list or deque leaves out what stands where it stood. A text that the region put there may be
// the very object that was there, which nobody has looked at: then it has to be equal again.
void guard_values_that_stay(Region& region) {
  const auto may_be_shared = [](PyObject* object) {
    return PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) || PyComplex_CheckExact(object);
  };
  region.doing = "changes an object";
  for (PyObject* changed : region.shadows.in_order()) {
    const Shadow* shadow = region.shadows.find_as_it_is(changed);
    const Cat cat = cat_of(changed);
    if (!shadow->changed || shadow->added || (cat != Cat::List && cat != Cat::Deque)) continue;
    const auto before = elements_now(changed), after = elements_now(shadow->object.get());
    std::unordered_set<PyObject*> now;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(after.get()); ++i) now.insert(PyList_GET_ITEM(after.get(), i));
    const Source* source = region.provenance.source_of(changed);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(before.get()); ++i) {
      PyObject* item = PyList_GET_ITEM(before.get(), i);
      if (may_be_shared(item) && now.contains(item))
        region.provenance.note_read(item, region.capture->sources.item(source, i));
    }
  }
}

void guard_advanced_apart(Region& region) {
  region.doing = "advances an iterator";
  const auto apart = [&](const std::vector<PyObject*>& all) {
    for (auto one = all.begin(); one != all.end(); ++one) {
      for (auto other = all.begin(); other != one; ++other) {
        if (Py_TYPE(*one) == Py_TYPE(*other)) region.reads.same(*one, *other);
      }
    }
  };
  apart(region.generators.in_order());
  apart(region.iterators.in_order());
}

}  // namespace

std::unique_ptr<Capture> finish(Region& region, py::Owned<> result) {
  for (const auto& audit : region.late_audits) {
    if (audit->is_changed_since())
      unsupported(Reason::ImpureBody,
                  {{"callee", "a function that runs again"}, {"what", "what it reaches is changed behind it"}});
  }
  region.unbacked.finish();
  region.numbers.finish();
  region.recorder.keep_size_inputs();
  guard_tensors_apart(region);
  guard_keys_apart(region);
  guard_changed_apart(region);
  guard_values_that_stay(region);
  guard_advanced_apart(region);
  add_effects(region);
  region.grad_flags.finish();
  Capture& capture = *region.capture;
  capture.result = std::move(result);
  // A shadow that leaves the region (a view or iterator holds it) means the object it stands for. The region goes
  // before codegen reads the map, so the capture keeps the shadows: a dead one's address could be that of an object
  // made later.
  capture.stands_for = region.shadows.take_stand_ins();
  for (const auto& [stand_in, object] : capture.stands_for) region.provenance.keep(stand_in);
  guards::Guard state;
  state.kind = Kind::GLOBAL_STATE;
  state.why.operation = "global state of torch";
  capture.guards.add(std::move(state));
  return std::move(region.capture);
}

}  // namespace pellucid::region
