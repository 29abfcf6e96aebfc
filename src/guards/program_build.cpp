#include <algorithm>
#include <stdexcept>

#include "guards/equality.h"
#include "guards/home.h"
#include "guards/operand.h"
#include "guards/program.h"
#include "guards/traits.h"

namespace pellucid::guards {

using source::Step;

// Turns guards into a program: copies the sources it needs, lays them out as a tree in pre-order, and writes the hot
// program.
class Builder {
 public:
  Builder(const source::SourceTable& table, std::vector<Guard> guards) : table_(table), program_(new GuardProgram) {
    program_->given_->guards = std::move(guards);
    plan_of_.assign(table.size(), kNone);
    named_.assign(table.size(), false);
  }
  std::unique_ptr<GuardProgram> build(PyFunctionObject* entry, const std::vector<const Source*>& inputs);

 private:
  static constexpr std::uint32_t kNone = GuardProgram::kNone;
  // A value's type is known at its own level, what that type says it has at the next one, what hangs on it behind.
  static constexpr int kLevelsOfNode = 2;
  struct Plan {
    const Source* source = nullptr;
    std::uint32_t parent = kNone;
    bool attributes = false;
    std::uint32_t attributes_plan = kNone;       // of a value: its Attributes child
    std::vector<std::uint32_t> grouped, others;  // children
    std::vector<std::uint32_t> guards, lookups, key_guards;
    PyTypeObject* known_type = nullptr;  // from TYPE_MATCH
    std::uint32_t node = kNone;
    bool related = false;  // of attributes: part of an IS_NOT
  };

  std::uint32_t plan_for(const Source* source);
  void plan_wanted(const Source* source);
  GuardProgram::Wanted wanted(const Source* source) const;
  void add_condition(const Guard& guard, std::uint32_t check);
  std::uint32_t attributes_of(std::uint32_t plan);
  std::uint32_t plan_in_relation(const Source* source, Kind kind);
  std::uint32_t add_plan(std::uint32_t parent, const Source* source, bool attributes);
  void copy_sources();
  void place_guards();
  void place(std::uint32_t guard);
  void place_at(std::uint32_t plan, std::uint32_t guard);
  Check check_of(std::uint32_t guard);
  void add_checks(const std::vector<std::uint32_t>& guards, std::uint32_t node);
  void lay_out(std::uint32_t plan, std::uint32_t parent);
  bool is_stable(const Check& check, const Plan& plan) const;
  bool has_group(const Plan& plan) const;
  void emit(std::uint32_t node, bool proved, int level);
  void emit_load(GuardProgram::Node& node, std::uint32_t index, int level);
  void emit_check(const Check& check, std::uint32_t node, const Plan& plan, bool proved, int level);
  void emit_group(std::uint32_t node, bool proved, int level);
  void add_section(std::uint32_t begin);
  void add_relations();

  bool last_is_small_ = false;  // of the sections
  const source::SourceTable& table_;
  std::unique_ptr<GuardProgram> program_;
  std::vector<std::uint32_t> plan_of_;  // source id -> plan
  std::vector<bool> named_;             // source id -> has no plan, but a relation or an input names it
  std::vector<const Source*> copy_of_;  // source id -> the program's copy
  std::vector<Plan> plans_;
  std::vector<std::uint32_t> plan_of_node_, root_plans_, ambient_, relations_, late_;
};

namespace {

// An object of a static type keeps its type; modules are the exception that object.__class__ makes.
bool keeps_type(PyTypeObject* type) {
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && PyType_IsSubtype(type, &PyModule_Type) == 0;
}

// A step whose value may have no other owner.
bool makes_value(Step step) {
  return step == Step::Member || step == Step::Item || step == Step::Part || step == Step::Ahead;
}

}  // namespace

std::uint32_t Builder::add_plan(std::uint32_t parent, const Source* source, bool attributes) {
  const auto index = static_cast<std::uint32_t>(plans_.size());
  Plan& plan = plans_.emplace_back();
  plan.source = source, plan.parent = parent, plan.attributes = attributes;
  if (parent == kNone) {
    root_plans_.push_back(index);
  } else if (attributes || (!plans_[parent].attributes && source->step != Step::DictItem)) {
    plans_[parent].others.push_back(index);
  } else {
    plans_[parent].grouped.push_back(index);
  }
  return index;
}

std::uint32_t Builder::attributes_of(std::uint32_t plan) {
  if (plans_[plan].attributes_plan == kNone) {
    const std::uint32_t made = add_plan(plan, plans_[plan].source, true);
    plans_[plan].attributes_plan = made;
  }
  return plans_[plan].attributes_plan;
}

std::uint32_t Builder::plan_for(const Source* source) {
  std::vector<const Source*> missing;
  for (const Source* s = source; s != nullptr && plan_of_[static_cast<std::size_t>(s->id)] == kNone; s = s->base) {
    // Its int would be another object at each look.
    if (source::is_of_layout(s->step)) throw std::logic_error("a size is guarded by its tensor or by conditions");
    missing.push_back(s);
  }
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    const Source* s = *at;
    std::uint32_t parent = s->base == nullptr ? kNone : plan_of_[static_cast<std::size_t>(s->base->id)];
    if (s->step == Step::InstanceAttr) parent = attributes_of(parent);
    plan_of_[static_cast<std::size_t>(s->id)] = add_plan(parent, s, false);
  }
  return plan_of_[static_cast<std::size_t>(source->id)];
}

void Builder::plan_wanted(const Source* source) {
  const bool is_of_layout = source::is_of_layout(source->step);
  if (is_of_layout) named_[static_cast<std::size_t>(source->id)] = true;
  plan_for(is_of_layout ? source->base : source);
}

// Of a source of the table, when all nodes are laid out.
GuardProgram::Wanted Builder::wanted(const Source* source) const {
  const auto node_of = [&](const Source* s) { return plans_[plan_of_[static_cast<std::size_t>(s->id)]].node; };
  if (!source::is_of_layout(source->step)) return {node_of(source)};
  return {node_of(source->base), copy_of_[static_cast<std::size_t>(source->id)]};
}

// Two instance dicts are told apart by their owners' nodes: a dict that is replaced shows another version there, and
// need not be loaded.
std::uint32_t Builder::plan_in_relation(const Source* source, Kind kind) {
  if (kind != Kind::IS_NOT || source->step != Step::DictOf) return plan_for(source);
  const std::uint32_t plan = attributes_of(plan_for(source->base));
  plans_[plan].related = true;
  named_[static_cast<std::size_t>(source->id)] = true;
  return plan;
}

void Builder::place(std::uint32_t index) {
  const Guard& guard = program_->given_->guards[index];
  const Place place = traits(guard.kind).place;
  if ((guard.source == nullptr) != (place == Place::Ambient || place == Place::Sources))
    throw std::logic_error("a guard without a source, or with one too many");
  switch (place) {
    case Place::Ambient:
      ambient_.push_back(index);
      return;
    case Place::Sources:
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(guard.operand.get()); ++i) {
        const std::size_t id = PyLong_AsSize_t(PyTuple_GET_ITEM(guard.operand.get(), i));
        if (id >= table_.size()) throw std::logic_error("a guard names a source that is not in the table");
        guard.kind != Kind::DISTINCT ? plan_wanted(table_.at(id)) : void(plan_for(table_.at(id)));
      }
      relations_.push_back(index);
      return;
    case Place::Pair:
      plan_in_relation(guard.source, guard.kind);
      plan_in_relation(guard.other, guard.kind);
      relations_.push_back(index);
      return;
    default:
      place_at(plan_for(guard.source), index);
  }
}

void Builder::place_at(std::uint32_t plan, std::uint32_t index) {
  const Guard& guard = program_->given_->guards[index];
  switch (traits(guard.kind).place) {
    case Place::Late:
      late_.push_back(index);
      return;
    case Place::Attributes:
      plan = attributes_of(plan);
      [[fallthrough]];
    case Place::Dict:
    case Place::DictOrder:
      plans_[plan].key_guards.push_back(index);
      return;
    case Place::Type:
      plans_[plan].lookups.push_back(index);
      return;
    default:
      plans_[plan].guards.push_back(index);
      if (guard.kind == Kind::TYPE_MATCH)
        plans_[plan].known_type = reinterpret_cast<PyTypeObject*>(guard.operand.get());
  }
}

void Builder::place_guards() {
  for (std::uint32_t i = 0; i < program_->given_->guards.size(); ++i) place(i);
  // OrderedDict.move_to_end leaves the version as it is: there the version proves the values, not the order of the
  // keys.
  const auto is_not_order = [&](std::uint32_t guard) {
    return traits(program_->given_->guards[guard].kind).place != Place::DictOrder;
  };
  for (Plan& plan : plans_) {
    const bool may_be_ordered = plan.known_type == nullptr || is_ordered_dict_type(plan.known_type);
    const auto first = may_be_ordered
                           ? std::stable_partition(plan.key_guards.begin(), plan.key_guards.end(), is_not_order)
                           : plan.key_guards.end();
    plan.guards.insert(plan.guards.end(), first, plan.key_guards.end());
    plan.key_guards.erase(first, plan.key_guards.end());
    std::stable_sort(plan.guards.begin(), plan.guards.end(), [&](std::uint32_t a, std::uint32_t b) {
      return traits(program_->given_->guards[a].kind).rank < traits(program_->given_->guards[b].kind).rank;
    });
  }
  // Arguments change most often: look at them first.
  std::stable_sort(root_plans_.begin(), root_plans_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return plans_[a].source->step < plans_[b].source->step; });
}

void Builder::copy_sources() {
  auto& copies = program_->given_->sources;
  copy_of_.assign(table_.size(), nullptr);
  copies.reserve(table_.size());  // pointers into it stay valid
  for (std::size_t id = 0; id < table_.size(); ++id) {
    if (plan_of_[id] == kNone && !named_[id]) continue;
    const Source* from = table_.at(id);
    PyObject* object = from->operand.get();
    PyObject* operand =
        from->step == Step::DictItem ? program_->hold_.keep_key(object) : program_->hold_.keep_or_watch(object);
    const Source* base = from->base == nullptr ? nullptr : copy_of_[static_cast<std::size_t>(from->base->id)];
    copies.push_back(Source{from->step, base, py::Owned<>::steal(operand), from->index, from->id});
    copy_of_[id] = &copies.back();
  }
  for (Plan& plan : plans_) plan.source = copy_of_[static_cast<std::size_t>(plan.source->id)];
  for (Guard& guard : program_->given_->guards) {
    if (guard.source != nullptr) guard.source = copy_of_[static_cast<std::size_t>(guard.source->id)];
    if (guard.other != nullptr) guard.other = copy_of_[static_cast<std::size_t>(guard.other->id)];
  }
}

Check Builder::check_of(std::uint32_t index) {
  Guard& guard = program_->given_->guards[index];
  if (guard.kind == Kind::GLOBAL_STATE && guard.state == nullptr) guard.state = aten::GlobalState::now();
  Check check;
  check.kind = guard.kind, check.guard = index, check.number = guard.number;
  check.tensor = guard.tensor.get(), check.state = guard.state.get(), check.condition = guard.condition.get();
  check.foresight = guard.foresight.get();
  take_operand(check, guard, program_->hold_);
  program_->check_of_[index] = static_cast<std::uint32_t>(program_->checks_.size());
  return check;
}

void Builder::add_checks(const std::vector<std::uint32_t>& guards, std::uint32_t node) {
  for (const std::uint32_t guard : guards) {
    program_->checks_.push_back(check_of(guard));
    program_->node_of_check_.push_back(node);
  }
}

void Builder::lay_out(std::uint32_t index, std::uint32_t parent) {
  auto& nodes = program_->nodes_;
  const auto at = static_cast<std::uint32_t>(nodes.size());
  const auto checks = [&] { return static_cast<std::uint32_t>(program_->checks_.size()); };
  nodes.emplace_back();
  plan_of_node_.push_back(index);
  Plan& plan = plans_[index];
  plan.node = at;
  GuardProgram::Node node;
  node.source = plan.source, node.parent = parent, node.attributes = plan.attributes;
  node.checks = checks();
  add_checks(plan.guards, at);
  node.lookups = checks();
  add_checks(plan.lookups, at);
  node.key_checks = checks();
  add_checks(plan.key_guards, at);
  node.checks_end = checks();
  for (const std::uint32_t child : plan.grouped) lay_out(child, at);
  node.group_end = static_cast<std::uint32_t>(nodes.size());
  for (const std::uint32_t child : plan.others) lay_out(child, at);
  node.end = static_cast<std::uint32_t>(nodes.size());
  nodes[at] = node;
}

bool Builder::is_stable(const Check& check, const Plan& plan) const {
  PyTypeObject* const known = plan.known_type;
  switch (traits(check.kind).stable) {
    case Stable::Never:
      return false;
    case Stable::Always:
      return true;
    case Stable::StaticType:
      return keeps_type(known);
    case Stable::Immutable:
      return known != nullptr &&
             (PyType_IsSubtype(known, &PyTuple_Type) != 0 || PyType_IsSubtype(known, &PyFrozenSet_Type) != 0);
  }
  return false;
}

bool Builder::has_group(const Plan& plan) const {
  return !plan.grouped.empty() || !plan.key_guards.empty() || plan.related;
}

namespace {

Op load_op(const Source& source) {
  switch (source.step) {
    case Step::Local:
      return Op::LoadLocal;
    case Step::Item:
      return Op::LoadItem;
    case Step::CellContents:
      return Op::LoadCell;
    case Step::Member:
      return PyUnicode_CompareWithASCIIString(source.operand.get(), "__closure__") == 0 ? Op::LoadClosure
                                                                                        : Op::LoadStep;
    default:
      return Op::LoadStep;
  }
}

// Deeper levels need no names: a watch stops before.
std::uint8_t as_level(int level) { return static_cast<std::uint8_t>(std::min(level, 255)); }

// Whoever knows the pointer knows this.
bool is_about_identity(Kind kind) { return kind == Kind::ID_MATCH || kind == Kind::NOT_ID; }

}  // namespace

void Builder::emit_load(GuardProgram::Node& node, std::uint32_t index, int level) {
  Hot hot;
  hot.node = index, hot.level = as_level(level);
  hot.index = static_cast<std::int32_t>(node.source->index);
  hot.op = load_op(*node.source);
  node.load_at = static_cast<std::uint32_t>(program_->hot_.size());
  program_->hot_.push_back(hot);
}

void Builder::emit_check(const Check& check, std::uint32_t node, const Plan& plan, bool proved, int level) {
  Hot hot;
  hot.node = node, hot.level = as_level(level), hot.is_certain = proved;
  switch (traits(check.kind).hot) {
    case HotCheck::Type:
      hot.op = Op::Type, hot.payload = reinterpret_cast<std::uint64_t>(check.operand);
      break;
    case HotCheck::Size:
      hot.op = plan.known_type != nullptr && keeps_type(plan.known_type) &&
                       PyType_HasFeature(plan.known_type, Py_TPFLAGS_DICT_SUBCLASS)
                   ? Op::DictSize
                   : Op::Size;
      hot.payload = static_cast<std::uint64_t>(check.number);
      break;
    case HotCheck::Tensor:
      hot.op = Op::Tensor, hot.payload = reinterpret_cast<std::uint64_t>(check.tensor);
      break;
    case HotCheck::Function:
      hot.op = Op::Function, hot.payload = reinterpret_cast<std::uint64_t>(&check);
      break;
    case HotCheck::Check:
      hot.op = Op::Check, hot.payload = reinterpret_cast<std::uint64_t>(&check);
  }
  program_->hot_.push_back(hot);
}

void Builder::emit_group(std::uint32_t index, bool proved, int level) {
  auto& hot = program_->hot_;
  GuardProgram::Node& node = program_->nodes_[index];
  node.group_at = static_cast<std::uint32_t>(hot.size());
  Hot group;
  group.node = index, group.level = as_level(level);
  group.is_certain = proved || (node.attributes && plans_[plans_[plan_of_node_[index]].parent].known_type != nullptr);
  group.op = node.attributes ? Op::Attributes : proved ? Op::Group : Op::CheckedGroup;
  hot.push_back(group);
  for (std::uint32_t child = index + 1; child < node.group_end; child = program_->nodes_[child].end)
    emit(child, true, level + kLevelsOfNode);
  hot[node.group_at].skip = static_cast<std::uint32_t>(hot.size());
}

// `proved`: whoever comes here knows that the value is the one of the last full walk.
void Builder::emit(std::uint32_t index, bool proved, int level) {
  auto& hot = program_->hot_;
  const auto here = [&] { return static_cast<std::uint32_t>(hot.size()); };
  GuardProgram::Node& node = program_->nodes_[index];
  const Plan& plan = plans_[plan_of_node_[index]];
  if (!proved && !node.attributes) emit_load(node, index, level);
  node.checks_at = here();
  for (std::uint32_t i = node.checks; i < node.lookups; ++i) {
    const Check& check = program_->checks_[i];
    if (is_about_identity(check.kind) || (proved && is_stable(check, plan))) continue;
    emit_check(check, index, plan, proved, level);
  }
  node.checks_until = here();
  if (node.lookups != node.key_checks) {
    node.lookups_at = here();
    Hot tag;
    tag.node = index, tag.level = as_level(level), tag.is_certain = proved, tag.op = Op::TypeTag;
    hot.push_back(tag);
  }
  if (has_group(plan)) emit_group(index, proved, level);
  for (std::uint32_t child = node.group_end; child < node.end; child = program_->nodes_[child].end)
    emit(child, false, level + kLevelsOfNode);
  if (node.load_at != kNone) hot[node.load_at].skip = here();
}

void Builder::add_condition(const Guard& guard, std::uint32_t check) {
  GuardProgram::Conditional conditional;
  conditional.check = check;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(guard.operand.get()); ++i)
    conditional.operands.push_back(wanted(table_.at(PyLong_AsSize_t(PyTuple_GET_ITEM(guard.operand.get(), i)))));
  if (guard.condition != nullptr && conditional.operands.size() != guard.condition->symbols.size())
    throw std::logic_error("a condition has one source for each of its symbols");
  program_->conditionals_.push_back(std::move(conditional));
}

void Builder::add_relations() {
  const auto node_of = [&](const Source* source) {
    return plans_[plan_of_[static_cast<std::size_t>(source->id)]].node;
  };
  const auto node_in = [&](const Source* source, Kind kind) {
    return plans_[plan_in_relation(table_.at(static_cast<std::size_t>(source->id)), kind)].node;
  };
  std::vector<std::vector<std::uint32_t>> pairs_of(program_->nodes_.size());
  for (const std::uint32_t index : relations_) {
    const Guard& guard = program_->given_->guards[index];
    const auto check = static_cast<std::uint32_t>(program_->checks_.size());
    program_->checks_.push_back(check_of(index));
    program_->node_of_check_.push_back(kNone);
    if (traits(guard.kind).place == Place::Pair) {
      const std::uint32_t node = node_in(guard.source, guard.kind), other = node_in(guard.other, guard.kind);
      const auto pair = static_cast<std::uint32_t>(program_->pairs_.size());
      program_->pairs_.push_back({check, node, other, guard.kind == Kind::IS});
      pairs_of[node].push_back(pair);
      pairs_of[other].push_back(pair);
      continue;
    }
    if (guard.kind != Kind::DISTINCT) {
      add_condition(guard, check);
      continue;
    }
    GuardProgram::Distinct distinct;
    distinct.check = check;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(guard.operand.get()); ++i) {
      const std::uint32_t node = node_of(table_.at(PyLong_AsSize_t(PyTuple_GET_ITEM(guard.operand.get(), i))));
      distinct.nodes.push_back(node);
      std::uint32_t& first = program_->nodes_[node].related;
      program_->links_.push_back(
          {static_cast<std::uint32_t>(program_->distincts_.size()), static_cast<std::uint32_t>(i), first});
      first = static_cast<std::uint32_t>(program_->links_.size() - 1);
    }
    distinct.values.assign(distinct.nodes.size(), nullptr);
    distinct.changed.reserve(4);
    all_distinct(distinct.values.data(), 0, distinct.table);
    distinct.table.reserve(4 * distinct.nodes.size() + 8);
    program_->distincts_.push_back(std::move(distinct));
  }
  for (const std::uint32_t index : late_) {
    const std::uint32_t node = node_of(program_->given_->guards[index].source);
    program_->late_.push_back({static_cast<std::uint32_t>(program_->checks_.size()), node});
    program_->checks_.push_back(check_of(index));
    program_->node_of_check_.push_back(node);
  }
  for (std::size_t node = 0; node < pairs_of.size(); ++node) {
    auto& links = program_->pair_links_;
    program_->nodes_[node].pairs = static_cast<std::uint32_t>(links.size());
    links.insert(links.end(), pairs_of[node].begin(), pairs_of[node].end());
    program_->nodes_[node].pairs_end = static_cast<std::uint32_t>(links.size());
  }
}

// Small roots next to each other are one section.
void Builder::add_section(std::uint32_t begin) {
  auto& sections = program_->sections_;
  const auto end = static_cast<std::uint32_t>(program_->hot_.size());
  const bool is_small = end - begin < Watch::kWorth;
  if (is_small && last_is_small_) {
    sections.back().end = end;
  } else if (begin != end) {
    sections.push_back({begin, end, {}});
    last_is_small_ = is_small;
  }
}

std::unique_ptr<GuardProgram> Builder::build(PyFunctionObject* entry, const std::vector<const Source*>& inputs) {
  program_->check_of_.assign(program_->given_->guards.size(), 0);
  program_->checks_.reserve(program_->given_->guards.size());  // the hot program points into it
  if (entry != nullptr) {
    program_->globals_ = program_->hold_.keep(entry->func_globals);
    program_->home_ = home_globals(entry->func_globals, program_->given_->guards);
  }
  for (const Source* input : inputs) plan_wanted(input);
  place_guards();
  copy_sources();
  add_checks(ambient_, kNone);
  program_->ambient_end_ = static_cast<std::uint32_t>(program_->checks_.size());
  for (const std::uint32_t root : root_plans_) {
    program_->roots_.push_back(static_cast<std::uint32_t>(program_->nodes_.size()));
    lay_out(root, kNone);
  }
  add_relations();
  for (const std::uint32_t root : program_->roots_) {
    const auto begin = static_cast<std::uint32_t>(program_->hot_.size());
    emit(root, program_->nodes_[root].source->step == Step::Const, 1);
    add_section(begin);
  }
  std::size_t steps = 0;
  for (const auto& node : program_->nodes_) steps += makes_value(node.source->step);
  program_->temporaries_.values.reserve(4 * steps);  // of a watch, and of the ops that are asked after it
  for (const Source* input : inputs) {
    const GuardProgram::Wanted from = wanted(input);
    if (from.layout != nullptr)
      program_->numbers_.push_back({static_cast<Py_ssize_t>(program_->inputs_.size()), from.layout});
    program_->inputs_.push_back(from.node);
  }
  for (Guard& guard : program_->given_->guards) guard.operand = {};  // held or watched now
  program_->hold_.seal();
  return std::move(program_);
}

std::unique_ptr<GuardProgram> GuardProgram::compile(const source::SourceTable& sources, std::vector<Guard> guards,
                                                    PyFunctionObject* entry, const std::vector<const Source*>& inputs) {
  return Builder(sources, std::move(guards)).build(entry, inputs);
}

}  // namespace pellucid::guards
