#include "guards/program.h"

#include <algorithm>

#include "guards/foresight.h"
#include "guards/report.h"
#include "py/cpython.h"
#include "py/native_lookup.h"

namespace pellucid::guards {
namespace {

std::uint64_t bits(const void* pointer) noexcept { return reinterpret_cast<std::uint64_t>(pointer); }

// 0 (never a version): nothing can be proved.
std::uint64_t version_of(PyObject* dict) noexcept {
  return dict != nullptr && PyDict_Check(dict) ? py::dict_version(dict) : 0;
}

PyObject* item_at(PyObject* sequence, std::int32_t index) noexcept {
  if (PyList_CheckExact(sequence))
    return index < PyList_GET_SIZE(sequence) ? PyList_GET_ITEM(sequence, index) : nullptr;
  if (PyTuple_CheckExact(sequence))
    return index < PyTuple_GET_SIZE(sequence) ? PyTuple_GET_ITEM(sequence, index) : nullptr;
  return nullptr;
}

// Null: load() knows.
PyObject* loaded(const Hot& h) noexcept {
  switch (h.op) {
    case Op::LoadItem:
      return item_at(h.value, h.index);
    case Op::LoadClosure: {
      if (!PyFunction_Check(h.value)) return nullptr;
      PyObject* closure = reinterpret_cast<PyFunctionObject*>(h.value)->func_closure;
      return closure == nullptr ? Py_None : closure;
    }
    case Op::LoadCell:
      return PyCell_Check(h.value) ? PyCell_GET(h.value) : nullptr;
    default:
      return nullptr;
  }
}

std::int64_t size_of(PyObject* object) noexcept {
  if (PyDict_Check(object)) return reinterpret_cast<PyDictObject*>(object)->ma_used;
  return source::native_length(object);
}

std::uint32_t tag_of(PyObject* type) noexcept {
  return PyType_Check(type) ? py::type_version(reinterpret_cast<PyTypeObject*>(type)) : 0;
}

// A step that makes an object could start the garbage collector, whose finalisers could free what the walk has proved.
bool may_allocate(source::Step step) noexcept { return step == source::Step::Member || step == source::Step::DictOf; }

class NoCollection {
 public:
  explicit NoCollection(bool wanted) noexcept : paused_(wanted && PyGC_Disable() != 0) {}
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;
  ~NoCollection() {
    if (paused_) PyGC_Enable();
  }

 private:
  bool paused_;
};

}  // namespace

GuardProgram::Given::~Given() {
  for (Source& source : sources) (void)source.operand.release();  // borrowed
}

std::unique_ptr<GuardProgram> GuardProgram::copy() const {
  std::unique_ptr<GuardProgram> made(new GuardProgram(*this));
  for (Hot& h : made->hot_) {
    if (h.op == Op::Check || h.op == Op::Function)
      h.payload = bits(made->checks_.data() + (reinterpret_cast<const Check*>(h.payload) - checks_.data()));
  }
  for (std::size_t i = 0; i < distincts_.size(); ++i) {
    made->distincts_[i].changed.reserve(distincts_[i].changed.capacity());
    made->distincts_[i].table.reserve(distincts_[i].table.capacity());
  }
  made->walking_ = made->gathers_ = false;
  return made;
}

bool GuardProgram::check(PyObject* const* locals, PyObject* closure, StateReading* state) noexcept {
  gathers_ = false;
  if (!hold_.alive()) return false;
  if (walking_) {
    // A nested call must not move the latches under the outer one; late checks count references, and a report holds
    // some.
    if (!late_.empty()) return false;
    try {
      return !GuardReport(*this).first_miss(locals, closure).has_value();
    } catch (...) {
      return false;
    }
  }
  walking_ = true;
  const Frame frame{locals, closure};
  StateReading own;
  if (state == nullptr) state = &own;
  bool ok = true;
  for (std::uint32_t i = 0; ok && i < ambient_end_; ++i) {
    const Check& check = checks_[i];
    ok = check.state != nullptr ? check.state->matches(*state) : guards::holds(check, nullptr, nullptr);
  }
  if (ok && primed_) {
    for (std::size_t i = 0; ok && i < sections_.size(); ++i) ok = section_holds(sections_[i], frame);
  } else if (ok) {
    ok = primed_ = walk_all(frame);
  }
  if (ok) ok = relations_hold() && late_checks_hold();
  walking_ = false;
  gathers_ = ok && temporaries_.values.empty();
  while (!temporaries_.values.empty()) {
    const auto last = std::move(temporaries_.values.back());
    temporaries_.values.pop_back();
  }
  return ok;
}

py::Owned<> GuardProgram::gathered() const noexcept {
  if (!gathers_ || inputs_.empty()) return {};
  const NoCollection pause(true);  // a finaliser could drop the program, or change what it has just read
  auto tuple = py::Owned<>::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs_.size())));
  if (!tuple) PyErr_Clear();
  for (std::size_t i = 0; tuple && i < inputs_.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(nodes_[inputs_[i]].value));
  for (std::size_t i = 0; tuple && i < numbers_.size(); ++i) {
    PyObject*& item = PyTuple_GET_ITEM(tuple.get(), numbers_[i].position);
    py::Owned<> number;
    if (source::load_step(*numbers_[i].layout, item, nullptr, nullptr, number) == nullptr) return {};
    Py_SETREF(item, number.release());  // the tensor has other owners
  }
  return tuple;
}

bool GuardProgram::section_holds(Section& section, const Frame& frame) noexcept {
  Watch& watch = section.watch;
  const std::uint32_t before = moves_;
  const bool due = section.end - section.begin >= Watch::kWorth && watch.is_due();
  if (due && watch.is_made()) {
    const bool unchanged = watch.is_unchanged([&](const Watch::Range& range) {
      const std::uint32_t until = moves_;
      return run(range.begin, range.end, frame) && !(range.is_load && moves_ != until);
    });
    watch.note(unchanged);
    if (unchanged) return true;
  }
  if (!run(section.begin, section.end, frame)) {
    if (moves_ != before) watch.forget();
    return false;
  }
  // Only now is it known that all objects are there that it reads from.
  if (moves_ != before) watch.forget();
  if (due && !watch.is_made()) watch.make(hot_, section.begin, section.end);
  return true;
}

bool GuardProgram::run(std::uint32_t at, std::uint32_t end, const Frame& frame) noexcept {
  while (at < end) {
    Hot& h = hot_[at];
    switch (h.op) {
      case Op::LoadLocal:
      case Op::LoadItem:
      case Op::LoadClosure:
      case Op::LoadCell:
      case Op::LoadStep: {
        PyObject* value = h.op == Op::LoadLocal ? frame.locals[h.index] : loaded(h);
        if (value == nullptr) value = load(nodes_[h.node], frame);
        if (bits(value) == h.payload && value != nullptr) break;
        if (value == nullptr || !changed(h.node, value, frame)) return false;
        at = h.skip;
        continue;
      }
      case Op::Group:
      case Op::CheckedGroup:
      case Op::Attributes: {
        const std::uint64_t version = h.op == Op::Group          ? py::dict_version(h.value)
                                      : h.op == Op::CheckedGroup ? version_of(h.value)
                                                                 : version_of(py::instance_dict_now(h.value));
        if (version == h.payload && version != 0) break;
        if (!walk_group(h.node, frame)) return false;
        at = h.skip;
        continue;
      }
      case Op::TypeTag: {
        const std::uint32_t tag = tag_of(h.value);
        if ((tag == 0 || tag != h.payload) && !look_up(h.node)) return false;
        break;
      }
      case Op::Type:
        if (bits(Py_TYPE(h.value)) != h.payload) return false;
        break;
      case Op::Size:
        if (size_of(h.value) != static_cast<std::int64_t>(h.payload)) return false;
        break;
      case Op::DictSize:
        if (reinterpret_cast<PyDictObject*>(h.value)->ma_used != static_cast<std::int64_t>(h.payload)) return false;
        break;
      case Op::Tensor:
        if (!reinterpret_cast<const aten::TensorSpec*>(h.payload)->matches(h.value)) return false;
        break;
      case Op::Function:
        if (!has_parts(*reinterpret_cast<const Check*>(h.payload), h.value)) return false;
        break;
      case Op::Check:
        if (!guards::holds(*reinterpret_cast<const Check*>(h.payload), h.value, nullptr)) return false;
        break;
    }
    ++at;
  }
  return true;
}

bool GuardProgram::walk_all(const Frame& frame) noexcept {
  for (const std::uint32_t root : roots_) {
    if (!load_and_walk(root, frame)) return false;
  }
  return true;
}

bool GuardProgram::load_and_walk(std::uint32_t node, const Frame& frame) noexcept {
  PyObject* value = load(nodes_[node], frame);
  if (value == nullptr) return false;
  return nodes_[node].load_at == kNone ? walk(node, value, frame) : changed(node, value, frame);
}

// A value that nothing proved: its subtree is walked, and only then the pointer is taken for the hot program.
bool GuardProgram::changed(std::uint32_t node, PyObject* value, const Frame& frame) noexcept {
  Hot& load_op = hot_[nodes_[node].load_at];
  note_move(load_op);
  load_op.payload = 0;
  const std::uint32_t parent = nodes_[node].parent;
  load_op.value = parent == kNone ? nullptr : nodes_[parent].value;
  if (!walk(node, value, frame)) return false;
  load_op.payload = bits(value);
  return true;
}

bool GuardProgram::walk(std::uint32_t index, PyObject* value, const Frame& frame) noexcept {
  Node& node = nodes_[index];
  if (node.pairs != node.pairs_end && node.value != value) note_pairs(index);
  node.value = value;
  if (node.related != kNone) note_change(node);
  for (std::uint32_t i = node.checks; i < node.lookups; ++i) {
    if (!guards::holds(checks_[i], value, nullptr)) return false;
  }
  for (std::uint32_t i = node.checks_at; i < node.checks_until; ++i) hot_[i].value = value;
  if (node.lookups_at != kNone && !look_up(index)) return false;
  if (node.group_at != kNone && !walk_group(index, frame)) return false;
  for (std::uint32_t child = node.group_end; child < node.end; child = nodes_[child].end) {
    if (!load_and_walk(child, frame)) return false;
  }
  return true;
}

bool GuardProgram::walk_group(std::uint32_t index, const Frame& frame) noexcept {
  const Node& node = nodes_[index];
  Hot& group = hot_[node.group_at];
  group.value = node.value;
  const std::uint64_t version = version_of(node.attributes ? py::instance_dict_now(node.value) : node.value);
  if (version != 0 && version == group.payload) return run(node.group_at + 1, group.skip, frame);
  note_move(group);
  group.payload = 0;
  if (node.attributes && node.pairs != node.pairs_end) {
    PyObject* dict = node.compared_value(node.value);
    if (std::exchange(nodes_[index].compared, dict) != dict) note_pairs(index);
  }
  if (!walk_group_members(index, frame)) return false;
  group.payload = version;  // read before the members: a change under our feet leaves it stale
  return true;
}

bool GuardProgram::walk_group_members(std::uint32_t index, const Frame& frame) noexcept {
  const Node& node = nodes_[index];
  for (std::uint32_t i = node.key_checks; i < node.checks_end; ++i) {
    if (!guards::holds(checks_[i], node.value, nullptr)) return false;
  }
  for (std::uint32_t child = index + 1; child < node.group_end; child = nodes_[child].end) {
    PyObject* value = load(nodes_[child], frame);
    if (value == nullptr || !walk(child, value, frame)) return false;
  }
  return true;
}

bool GuardProgram::look_up(std::uint32_t index) noexcept {
  const Node& node = nodes_[index];
  Hot& tag_op = hot_[node.lookups_at];
  note_move(tag_op);
  tag_op.payload = 0;
  tag_op.value = node.value;
  for (std::uint32_t i = node.lookups; i < node.key_checks; ++i) {
    if (!guards::holds(checks_[i], node.value, nullptr)) return false;
  }
  tag_op.payload = tag_of(node.value);  // a lookup gives the type a tag when it has none; 0 proves nothing
  return true;
}

PyObject* GuardProgram::load(const Node& node, const Frame& frame) noexcept {
  PyObject* base = node.parent == kNone ? nullptr : nodes_[node.parent].value;
  if (node.attributes) return base;
  py::Owned<> fresh;
  const NoCollection pause(may_allocate(node.source->step));
  PyObject* value = source::load_step(*node.source, base, frame.locals, frame.closure, fresh);
  if (fresh && Py_REFCNT(value) == 1) {  // nobody else has it
    if (temporaries_.values.size() == temporaries_.values.capacity()) return nullptr;
    temporaries_.values.push_back(std::move(fresh));
  }
  return value;
}

void GuardProgram::note_move(Hot& hot) noexcept {
  ++moves_;
  if (primed_ && hot.moves < Hot::kRestless) ++hot.moves;
}

void GuardProgram::note_change(const Node& node) noexcept {
  for (std::uint32_t at = node.related; at != kNone; at = links_[at].next) {
    Distinct& distinct = distincts_[links_[at].distinct];
    PyObject*& known = distinct.values[links_[at].position];
    if (known == node.value) continue;
    known = node.value;
    if (distinct.changed.size() == distinct.changed.capacity()) {
      distinct.all_changed = true;
    } else {
      distinct.changed.push_back(links_[at].position);
    }
  }
}

bool GuardProgram::Distinct::holds() noexcept {
  if (all_changed) {
    if (!all_distinct(values.data(), values.size(), table)) return false;
  } else {
    for (const std::uint32_t position : changed) {
      PyObject* value = values[position];
      for (std::uint32_t i = 0; i < values.size(); ++i) {
        if (values[i] == value && i != position) return false;
      }
    }
  }
  changed.clear();
  all_changed = false;
  return true;
}

void GuardProgram::note_pairs(std::uint32_t node) noexcept {
  if (changed_count_ < kMostChanged) changed_nodes_[changed_count_] = node;
  changed_count_ = std::min(changed_count_ + 1, kMostChanged + 1);
}

// What a relation compares: of an Attributes node the dict; the object itself, which is no dict, stands for one that
// was never made.
PyObject* GuardProgram::Node::compared_value(PyObject* of) const noexcept {
  if (!attributes || of == nullptr) return of;
  PyObject* dict = py::instance_dict_now(of);
  return dict == nullptr ? of : dict;
}

bool GuardProgram::pair_holds(const Pair& pair) const noexcept {
  const Node &node = nodes_[pair.node], &other = nodes_[pair.other];
  const auto now = [](const Node& n) { return n.attributes ? n.compared : n.value; };
  return (now(node) == now(other)) == pair.same;
}

// A pair compares two pointers: it stays as it is as long as neither changed.
bool GuardProgram::pairs_hold() noexcept {
  if (changed_count_ > kMostChanged) {
    if (!std::all_of(pairs_.begin(), pairs_.end(), [&](const Pair& pair) { return pair_holds(pair); })) return false;
  } else {
    for (std::uint32_t i = 0; i < changed_count_; ++i) {
      const Node& node = nodes_[changed_nodes_[i]];
      for (std::uint32_t at = node.pairs; at < node.pairs_end; ++at) {
        if (!pair_holds(pairs_[pair_links_[at]])) return false;
      }
    }
  }
  changed_count_ = 0;
  return true;
}

bool GuardProgram::late_checks_hold() const noexcept {
  return std::ranges::all_of(
      late_, [&](const Late& late) { return guards::holds(checks_[late.check], nodes_[late.node].value, nullptr); });
}

// A size is read anew each time: the same tensor may have got another one.
bool GuardProgram::load_number(const Wanted& wanted, symbolic::Value* out) const noexcept {
  PyObject* value = nodes_[wanted.node].value;
  if (value == nullptr) return false;
  if (wanted.layout == nullptr) return is_symbolic_value(value, out);
  std::int64_t number = 0;
  if (!source::load_number(*wanted.layout, value, &number)) return false;
  *out = symbolic::Value::of(number);
  return true;
}

bool GuardProgram::conditions_hold() const noexcept {
  return std::ranges::all_of(conditionals_, [&](const Conditional& conditional) {
    if (const Foresight* foresight = checks_[conditional.check].foresight) {
      std::vector<PyObject*> values;
      for (const Wanted& wanted : conditional.operands) values.push_back(nodes_[wanted.node].value);
      return foresight->holds(
          values, [&](std::size_t i, symbolic::Value* out) { return load_number(conditional.operands[i], out); });
    }
    return checks_[conditional.check].condition->holds(
        [&](std::size_t i, symbolic::Value* out) { return load_number(conditional.operands[i], out); });
  });
}

bool GuardProgram::relations_hold() noexcept {
  if (changed_count_ != 0 && !pairs_hold()) return false;
  if (!conditions_hold()) return false;
  for (Distinct& distinct : distincts_) {
    if (!distinct.holds()) return false;
  }
  return true;
}

}  // namespace pellucid::guards
