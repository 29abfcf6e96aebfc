// Replay of the net changes of objects that existed before the region. Only what differs is written; a container whose
// order changed is emptied and filled again. Always through the builtin's own operations: no overridden method of a
// subclass runs.
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "base/reasons.h"
#include "codegen/sets.h"
#include "codegen/walk.h"
#include "py/iterators.h"
#include "py/set_table.h"
#include "region/number.h"

namespace pellucid::codegen {
namespace {

using region::Effect;
using Items = std::vector<PyObject*>;

[[noreturn]] void cannot_replay(PyObject* target, const char* what) {
  throw GraphBreak(Reason::UnsupportedMutation,
                   {{"target", std::string("a ") + Py_TYPE(target)->tp_name + " (" + what + ")"}});
}

Expr integer(std::size_t value) { return Expr::constant(py::take(PyLong_FromSize_t(value)).get()); }

PyObject* method(PyTypeObject* base, const char* name) {
  PyObject* found = lookup(base, name);
  if (found == nullptr) py::check((PyErr_Format(PyExc_SystemError, "%s has no %s", base->tp_name, name), -1));
  return found;
}

// The statements of one effect on one target.
class Replay {
 public:
  Replay(Walker& walker, std::vector<Stmt>& out, PyObject* target, PyObject* keys = nullptr)
      : walker_(walker), out_(out), object_(target), keys_(keys), target_(walker.ref(target)) {
    if (target_.kind != Expr::Kind::Source && target_.kind != Expr::Kind::Constant)
      cannot_replay(target, "it has no known origin");
  }

  void set_list(const Items& before, const Items& after);
  void set_deque(const Items& before, const Items& after, bool only_set);
  void set_set(PyObject* set_before, PyObject* set_after);
  void set_dict(const Pairs& before, PyObject* after);

 private:
  void call(PyTypeObject* base, const char* name, std::vector<Expr> arguments = {});
  void step(Stmt::Kind kind, Expr key, Expr value);
  bool plain_items(PyTypeObject* base) const;
  PyObject* spelled(PyObject* key) const;
  bool is_item(PyObject* before, std::size_t index, PyObject* after) const;
  bool holds_already(PyObject* before, PyObject* key, PyObject* after) const;
  const Source* read_of_target(PyObject* after) const;
  Expr key_ref(PyObject* key);
  void store(PyObject* key, PyObject* value);
  void erase(PyObject* key);
  bool update_in_place(const Pairs& before, const Pairs& after);
  PyTypeObject* dict_base() const {
    return PyObject_TypeCheck(object_, ordered_dict_type()) ? ordered_dict_type() : &PyDict_Type;
  }

  Walker& walker_;
  std::vector<Stmt>& out_;
  PyObject* object_;
  PyObject* keys_;                            // Effect::keys, or null
  std::unordered_set<PyObject*> old_keys_{};  // those that a dict has before
  Expr target_;
};

// The key that the region used for one that the dict had before, an equal object that nobody has looked at.
PyObject* Replay::spelled(PyObject* key) const {
  if (keys_ == nullptr || !old_keys_.contains(key)) return key;
  PyObject* found = PyDict_GetItemWithError(keys_, key);
  if (found == nullptr && PyErr_Occurred() != nullptr) py::throw_pending();
  return found == nullptr ? key : found;
}

void Replay::call(PyTypeObject* base, const char* name, std::vector<Expr> arguments) {
  arguments.insert(arguments.begin(), target_.copy());
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value = Expr::call(method(base, name), std::move(arguments));
  out_.push_back(std::move(stmt));
}

void Replay::step(Stmt::Kind kind, Expr key, Expr value) {
  Stmt stmt{.kind = kind};
  stmt.target = target_.copy();
  stmt.key = std::move(key);
  stmt.value = std::move(value);
  out_.push_back(std::move(stmt));
}

bool Replay::plain_items(PyTypeObject* base) const {
  return Py_TYPE(object_)->tp_as_mapping->mp_ass_subscript == base->tp_as_mapping->mp_ass_subscript;
}

Expr Replay::key_ref(PyObject* key) {
  if (!has_c_hash(key)) cannot_replay(object_, "a key whose __hash__ is written in Python");
  return walker_.ref(key);
}

// Where a number was read, when that is below `container`.
const Source* read_below(PyObject* number, const Source* container) {
  if (!region::is_number(number)) return nullptr;
  const Source* source = region::as_number(number)->source;
  return source != nullptr && source->base == container ? source : nullptr;
}

const Source* Replay::read_of_target(PyObject* after) const {
  return target_.kind == Expr::Kind::Source ? read_below(after, target_.source) : nullptr;
}

// Whether `after` is what stands at `index` before the effect, whatever that is at another call: a number there is read
// by its path, and nobody has looked at its value.
bool Replay::is_item(PyObject* before, std::size_t index, PyObject* after) const {
  if (!PyLong_CheckExact(before) && !PyFloat_CheckExact(before)) return before == after;
  const Source* source = read_of_target(after);
  return source != nullptr && source->step == source::Step::Item && source->index == static_cast<std::int64_t>(index);
}

// The same of a dict's value. One that nobody has read is the very object.
bool Replay::holds_already(PyObject* before, PyObject* key, PyObject* after) const {
  if (before == after) return true;
  const Source* source = read_of_target(after);
  return source != nullptr && source->step == source::Step::DictItem && source->operand.get() == key;
}

void Replay::set_list(const Items& before, const Items& after) {
  const std::size_t shorter = std::min(before.size(), after.size());
  std::size_t head = 0, tail = 0;
  while (head < shorter && is_item(before[head], head, after[head])) ++head;
  while (tail < shorter - head &&
         is_item(before[before.size() - 1 - tail], before.size() - 1 - tail, after[after.size() - 1 - tail]))
    ++tail;
  if (head == before.size()) {
    for (std::size_t i = head; i < after.size(); ++i) step(Stmt::Kind::Append, {}, walker_.ref(after[i]));
    return;
  }
  std::vector<Expr> middle;
  for (std::size_t i = head; i < after.size() - tail; ++i) middle.push_back(walker_.ref(after[i]));
  Expr range =
      Expr::list(Expr::Kind::Slice, exprs(integer(head), integer(before.size() - tail), Expr::constant(Py_None)));
  Expr items = Expr::list(Expr::Kind::List, std::move(middle));
  if (plain_items(&PyList_Type)) {
    step(Stmt::Kind::SetItem, std::move(range), std::move(items));
  } else {
    call(&PyList_Type, "__setitem__", exprs(std::move(range), std::move(items)));
  }
}

void Replay::set_deque(const Items& before, const Items& after, bool only_set) {
  std::size_t kept = 0;
  while (kept < std::min(before.size(), after.size()) && is_item(before[kept], kept, after[kept])) ++kept;
  if (only_set) {  // iterators over it go on
    for (std::size_t i = kept; i < after.size(); ++i) {
      if (!is_item(before[i], i, after[i])) call(deque_type(), "__setitem__", exprs(integer(i), walker_.ref(after[i])));
    }
    return;
  }
  if (kept != before.size()) {
    call(deque_type(), "clear");
    kept = 0;
  }
  for (std::size_t i = kept; i < after.size(); ++i) call(deque_type(), "append", exprs(walker_.ref(after[i])));
}

void Replay::set_set(PyObject* set_before, PyObject* set_after) {
  const Items before = set_items(set_before);
  // One that was empty may be filled in another order than the elements are iterated in.
  const auto order = before.empty() ? order_of_insertion(walker_, set_after, true) : std::nullopt;
  const Items after = order.value_or(set_items(set_after));
  const std::unordered_set<PyObject*> old(before.begin(), before.end()), now(after.begin(), after.end());
  Items removed, added;
  std::ranges::copy_if(before, std::back_inserter(removed), [&](PyObject* item) { return now.count(item) == 0; });
  std::ranges::copy_if(after, std::back_inserter(added), [&](PyObject* item) { return old.count(item) == 0; });
  if (has_fixed_hashes(walker_, set_before, true) && has_fixed_hashes(walker_, set_after, true)) {
    const auto trial = py::copy_with_table(set_before, region::kNotPopped);
    for (PyObject* item : removed) py::check(PySet_Discard(trial.get(), item));
    for (PyObject* item : added) py::check(PySet_Add(trial.get(), item));
    const bool is_popped = py::finger_of(set_after) != region::kNotPopped;
    if (is_popped || !py::has_same_table(trial.get(), set_after)) {
      Stmt& stmt = out_.emplace_back(Stmt{.kind = Stmt::Kind::Evaluate});
      stmt.value = laid_out(walker_, target_.copy(), set_after, before);
      return;
    }
  } else if (!std::ranges::all_of(removed, [&](PyObject* item) { return walker_.exists(item); })) {
    call(&PySet_Type, "clear");
    removed.clear();
    added = after;
  }
  for (PyObject* item : removed) call(&PySet_Type, "discard", exprs(key_ref(item)));
  for (PyObject* item : added) step(Stmt::Kind::Add, {}, key_ref(item));
}

void Replay::store(PyObject* key, PyObject* value) {
  Expr key_expr = key_ref(spelled(key));
  if (plain_items(dict_base())) {
    step(Stmt::Kind::SetItem, std::move(key_expr), walker_.ref(value));
  } else {
    call(dict_base(), "__setitem__", exprs(std::move(key_expr), walker_.ref(value)));
  }
}

void Replay::erase(PyObject* key) {
  if (plain_items(dict_base())) {
    step(Stmt::Kind::DelItem, key_ref(spelled(key)), {});
  } else {
    call(dict_base(), "__delitem__", exprs(key_ref(spelled(key))));
  }
}

// Writes the difference: what stayed comes first, in the order it had, so all else goes and what is new is stored
// behind it. A key that stayed is not stored again: the dict has its own, an equal one perhaps. False (and nothing
// written) when a key that goes cannot be had.
bool Replay::update_in_place(const Pairs& before, const Pairs& after) {
  std::size_t stayed = 0;
  Items removed;
  std::vector<PyObject*> old_values;
  for (auto [key, value] : before) {
    if (stayed < after.size() && after[stayed].first == key) {
      ++stayed;
      old_values.push_back(value);
    } else {
      if (!walker_.exists(key) && spelled(key) == key) return false;
      removed.push_back(key);
    }
  }
  for (PyObject* key : removed) erase(key);
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (i >= stayed || !holds_already(old_values[i], after[i].first, after[i].second))
      store(after[i].first, after[i].second);
  }
  return true;
}

void Replay::set_dict(const Pairs& before, PyObject* after) {
  const Pairs items = dict_items(after);
  if (keys_ != nullptr) {
    for (auto [key, value] : before) old_keys_.insert(key);
  }
  if (update_in_place(before, items)) return;
  call(dict_base(), "clear");
  for (auto [key, value] : items) store(key, value);
}

// An instance dict is written through the instance: attributes kept without a dict stay so.
bool set_instance_dict(Walker& walker, std::vector<Stmt>& out, const Source* source, const Pairs& before,
                       PyObject* after) {
  if (source->step != source::Step::DictOf) return false;
  PyObject* owner = walker.object_at(source->base);
  if (owner == nullptr) return false;
  PyTypeObject* type = Py_TYPE(owner);
  if (PyType_IsSubtype(type, &PyModule_Type) || PyType_IsSubtype(type, &PyType_Type)) return false;
  const Pairs items = dict_items(after);
  std::size_t position = 0;
  for (auto [key, value] : before) {
    if (PyDict_GetItemWithError(after, key) == nullptr) continue;
    if (position >= items.size() || items[position].first != key) return false;
    ++position;
  }
  for (auto [key, value] : before) {
    if (!PyUnicode_CheckExact(key)) return false;
    if (PyDict_GetItemWithError(after, key) == nullptr)
      out.push_back(del_instance_attr(type, Expr::of(source->base), key));
  }
  std::unordered_map<PyObject*, PyObject*> old(before.begin(), before.end());
  for (auto [key, value] : items) {
    auto found = old.find(key);
    if (found != old.end() && found->second == value) continue;
    const Source* read = found != old.end() ? read_below(value, source->base) : nullptr;
    if (read != nullptr && read->step == source::Step::InstanceAttr && read->operand.get() == key) continue;
    if (!PyUnicode_CheckExact(key)) return false;
    out.push_back(set_instance_attr(type, Expr::of(source->base), key, walker.ref(value)));
  }
  return true;
}

// What a container holds when its effect comes: as it was, or as an earlier effect left it.
class Contents {
 public:
  PyObject* before(PyObject* target) const {
    auto found = last_.find(target);
    return found == last_.end() ? target : found->second;
  }
  void after(PyObject* target, PyObject* value) { last_[target] = value; }

 private:
  std::unordered_map<PyObject*, PyObject*> last_;
};

void replay_dict(Walker& walker, std::vector<Stmt>& out, const Effect& effect, PyObject* before) {
  PyObject *target = effect.target.get(), *after = effect.value.get();
  const Expr place = walker.ref(target);
  const Pairs old = dict_items(before);
  std::vector<Stmt> as_instance;
  if (place.kind == Expr::Kind::Source && set_instance_dict(walker, as_instance, place.source, old, after)) {
    for (Stmt& stmt : as_instance) out.push_back(std::move(stmt));
    return;
  }
  Replay(walker, out, target, effect.keys.get()).set_dict(old, after);
}

void replay_cell(Walker& walker, std::vector<Stmt>& out, const Effect& effect) {
  auto name = py::interned("cell_contents");
  Expr target = walker.ref(effect.target.get());
  out.push_back(effect.value
                    ? set_c_attr(effect.target.get(), std::move(target), name.get(), walker.ref(effect.value.get()))
                    : del_c_attr(effect.target.get(), std::move(target), name.get()));
}

void replay_attr(Walker& walker, std::vector<Stmt>& out, const Effect& effect) {
  PyObject* object = effect.target.get();
  Expr target = walker.ref(object);
  out.push_back(effect.value ? set_c_attr(object, std::move(target), effect.name.get(), walker.ref(effect.value.get()))
                             : del_c_attr(object, std::move(target), effect.name.get()));
}

void replay_call(Walker& walker, std::vector<Stmt>& out, const Effect& effect) {
  std::vector<Expr> arguments;
  if (effect.args) {
    for (PyObject* argument : list_items(effect.args.get())) arguments.push_back(walker.ref(argument));
  }
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value.kind = Expr::Kind::CallKw;
  stmt.value.items.push_back(walker.ref(effect.target ? effect.target.get() : effect.value.get()));
  stmt.value.items.push_back(Expr::list(Expr::Kind::Tuple, std::move(arguments)));
  Expr keywords = Expr::list(Expr::Kind::Map, {});
  if (effect.kwargs) {
    for (auto [name, value] : dict_items(effect.kwargs.get())) {
      keywords.items.push_back(Expr::constant(name));
      keywords.items.push_back(walker.ref(value));
    }
  }
  stmt.value.items.push_back(std::move(keywords));
  out.push_back(std::move(stmt));
}

void replay_append(Walker& walker, std::vector<Stmt>& out, const Effect& effect) {
  for (PyObject* item : list_items(effect.value.get())) {
    Stmt stmt{.kind = Stmt::Kind::Append};
    stmt.target = walker.ref(effect.target.get());
    stmt.value = walker.ref(item);
    out.push_back(std::move(stmt));
  }
}

void replay_advance(Walker& walker, std::vector<Stmt>& out, const Effect& effect) {
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value = advance(walker, walker.ref(effect.target.get()), effect.count, effect.ends);
  out.push_back(std::move(stmt));
}

void replay_one(Walker& walker, std::vector<Stmt>& out, const Effect& effect, Contents& contents) {
  PyObject* target = effect.target.get();
  PyObject* value = effect.value.get();
  PyObject* before = contents.before(target);
  switch (effect.kind) {
    case Effect::Kind::SetList:
      Replay(walker, out, target).set_list(list_items(before), list_items(value));
      break;
    case Effect::Kind::AppendToList:
      return replay_append(walker, out, effect);
    case Effect::Kind::SetDeque:
      Replay(walker, out, target)
          .set_deque(deque_items(before), deque_items(value),
                     // The copy that the region changed was made by so many additions.
                     Py_SIZE(before) == Py_SIZE(value) &&
                         py::deque_changes(value) == static_cast<std::size_t>(Py_SIZE(value)));
      break;
    case Effect::Kind::SetSet:
      Replay(walker, out, target).set_set(before, value);
      break;
    case Effect::Kind::SetDict:
      replay_dict(walker, out, effect, before);
      break;
    case Effect::Kind::SetCell:
      return replay_cell(walker, out, effect);
    case Effect::Kind::SetAttr:
      return replay_attr(walker, out, effect);
    case Effect::Kind::SetFrame:
      return replay_frame(walker, out, effect);
    case Effect::Kind::SetGenerator:
      return replay_generator(walker, out, effect);
    case Effect::Kind::Advance:
      return replay_advance(walker, out, effect);
    case Effect::Kind::Call:
      return replay_call(walker, out, effect);
  }
  contents.after(target, value);
}

}  // namespace

std::vector<Stmt> replay(Walker& walker) {
  std::vector<Stmt> out;
  Contents contents;
  for (const Effect& effect : walker.capture().effects) replay_one(walker, out, effect, contents);
  return out;
}

}  // namespace pellucid::codegen
