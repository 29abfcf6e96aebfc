// The table of operators, and the choice of how each one is faked.
#include "aten/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <map>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "aten/aten.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

// torch's Python meta functions are registered over the C++ meta kernels, which stay in the operator's private list of
// kernels. An explicit instantiation may name private members; this is the only way to reach a kernel that has been
// covered.
template <class Tag, auto Member>
struct Opened {
  friend constexpr auto open_member(Tag) { return Member; }
};
struct DefinitionTag {
  friend constexpr auto open_member(DefinitionTag);
};
struct KernelsTag {
  friend constexpr auto open_member(KernelsTag);
};
template struct Opened<DefinitionTag, &c10::OperatorHandle::operatorDef_>;
template struct Opened<KernelsTag, &c10::impl::OperatorEntry::kernels_>;

const c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& handle) {
  return (handle.*open_member(DefinitionTag{}))->op;
}

// The newest kernel for the key that was compiled from C++.
const c10::KernelFunction* native_kernel(const c10::OperatorHandle& handle, c10::DispatchKey key) {
  const auto& kernels = entry_of(handle).*open_member(KernelsTag{});
  const auto found = kernels.find(key);
  if (found == kernels.end()) return nullptr;
  for (const auto& annotated : found->second) {
    if ((annotated.kernel.isValidUnboxed() || annotated.kernel.isValidSymUnboxed()) &&
        !annotated.kernel.isFallthrough())
      return &annotated.kernel;
  }
  return nullptr;
}

const c10::KernelFunction* any_kernel(const c10::OperatorHandle& handle, c10::DispatchKey key) {
  const auto& kernels = entry_of(handle).*open_member(KernelsTag{});
  const auto found = kernels.find(key);
  return found == kernels.end() ? nullptr : &found->second.front().kernel;
}

bool has_tag(const c10::OperatorHandle& handle, at::Tag tag) {
  const auto& tags = handle.getTags();
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

// "aten::_foreach_sqrt" computes what "aten::sqrt" does, which alone has the tag. One that reads numbers out of a
// tensor may refuse their values.
bool is_pointwise(const c10::OperatorHandle& handle) {
  if (has_tag(handle, at::Tag::pointwise)) return true;
  constexpr std::string_view foreach = "aten::_foreach_";
  std::string name = handle.operator_name().name;
  if (!name.starts_with(foreach)) return false;
  const auto reads_numbers = [](const c10::Argument& argument) {
    return argument.name() == "scalars" && argument.type()->kind() == c10::TypeKind::TensorType;
  };
  if (std::ranges::any_of(handle.schema().arguments(), reads_numbers)) return false;
  name.replace(0, foreach.size(), "aten::");
  if (name.back() == '_') name.pop_back();
  for (const char* overload : {"", "Tensor"}) {
    const auto one = c10::Dispatcher::singleton().findSchema({name, overload});
    if (one && has_tag(*one, at::Tag::pointwise)) return true;
  }
  return false;
}

ArgKind kind_of(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) return kind_of(*type.castRaw<c10::OptionalType>()->getElementType());
  if (type.kind() == c10::TypeKind::TensorType) return ArgKind::Tensor;
  if (type.kind() == c10::TypeKind::DeviceObjType) return ArgKind::Device;
  if (type.kind() == c10::TypeKind::ListType &&
      kind_of(*type.castRaw<c10::ListType>()->getElementType()) == ArgKind::Tensor) {
    return ArgKind::TensorList;
  }
  return ArgKind::Other;
}

// Sizes, and numbers of any type.
bool may_be_open(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return may_be_open(*type.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::ListType:
      return may_be_open(*type.castRaw<c10::ListType>()->getElementType());
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::NumberType:
      return true;
    default:
      return false;
  }
}

bool is_builtin(const c10::OperatorHandle& handle) { return handle.operator_name().name.rfind("aten::", 0) == 0; }

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<Operator>> operators;
  std::map<std::string, std::int64_t> without_rule, without_size_rule;
};
Table& table() {
  static Table& instance = *new Table;  // torch's dispatcher outlives every static of ours
  return instance;
}

}  // namespace

std::string operator_name(const c10::OperatorName& name) {
  const std::string base = name.name.rfind("aten::", 0) == 0 ? name.name.substr(6) : name.name;
  return name.overload_name.empty() ? base : base + "." + name.overload_name;
}

struct Operator::Lookup {
  Lookup(const c10::OperatorHandle& op, const Facts& known) : handle(op), facts(known) {}

  void choose() {
    using c10::DispatchKey;
    struct Choice {
      Plan plan;
      const c10::KernelFunction* kernel;
    };
    if (const auto* composite = native_kernel(handle, DispatchKey::CompositeImplicitAutograd)) {
      kernel = composite;
      plan = Plan::Decompose;
      return;
    }
    const bool is_own = !is_builtin(handle);
    const bool reads =
        has_tag(handle, at::Tag::data_dependent_output) || has_tag(handle, at::Tag::dynamic_output_shape);
    const Choice choices[] = {
        {Plan::Meta, native_kernel(handle, DispatchKey::Meta)},
        {Plan::Decompose, facts.has(Fact::CpuDecomposes) ? native_kernel(handle, DispatchKey::CPU) : nullptr},
        {Plan::NeedsData, reads ? any_kernel(handle, DispatchKey::CPU) : nullptr},
        // What a library registers of an operator's shapes goes before what the operator does: collectives of several
        // processes are composed of others.
        {is_own ? Plan::OwnFake : Plan::PythonMeta,
         any_kernel(handle, DispatchKey::CPU) != nullptr || facts.has(Fact::DispatchesByHand) || is_own
             ? any_kernel(handle, DispatchKey::Meta)
             : nullptr},
        {Plan::Decompose, native_kernel(handle, DispatchKey::CompositeExplicitAutograd)},
        {Plan::Decompose, native_kernel(handle, DispatchKey::CompositeExplicitAutogradNonFunctional)},
        {Plan::PythonMeta, any_kernel(handle, DispatchKey::Meta)},
    };
    for (const Choice& choice : choices) {
      if (choice.kernel == nullptr) continue;
      plan = choice.plan;
      kernel = choice.kernel;
      return;
    }
    const bool only_writes = is_own && handle.schema().is_mutable() && handle.schema().returns().empty();
    plan = reads ? Plan::NeedsData : only_writes ? Plan::OnlyWrites : Plan::Missing;
  }

  const c10::OperatorHandle handle;
  const Facts facts;
  std::once_flag once;
  Plan plan = Plan::Missing;
  const c10::KernelFunction* kernel = nullptr;
};

Operator::Operator(const c10::OperatorHandle& handle)
    : name(operator_name(handle.operator_name())),
      facts(is_builtin(handle) ? facts_of(name) : Facts{}),
      lookup_(std::make_unique<Lookup>(handle, facts)) {
  const c10::FunctionSchema& schema = handle.schema();
  for (const c10::Argument& argument : schema.arguments()) {
    ArgFact fact{kind_of(*argument.type()), argument.alias_info() != nullptr && argument.alias_info()->isWrite()};
    writes |= fact.written;
    takes_tensors |= fact.kind == ArgKind::Tensor || fact.kind == ArgKind::TensorList;
    takes_sizes |= may_be_open(*argument.real_type());
    args.push_back(fact);
  }
  for (const c10::Argument& result : schema.returns()) {
    const c10::AliasInfo* alias = result.alias_info();
    std::int8_t from = -1;
    if (alias != nullptr && !alias->isWrite()) is_view = true;
    if (alias != nullptr && alias->isWrite()) {
      for (std::size_t i = 0; i < args.size(); ++i) {
        const c10::AliasInfo* other = schema.arguments()[i].alias_info();
        if (args[i].written && other->beforeSets() == alias->beforeSets()) from = static_cast<std::int8_t>(i);
      }
    }
    returned_arg.push_back(from);
  }
  // In-place operators keep the shape of self, but for those made to change it.
  const std::string base = name.substr(0, name.find('.'));
  const bool in_place = base.size() > 1 && base.back() == '_' && base.back() != base[base.size() - 2];
  out = !schema.arguments().empty() && schema.arguments().back().kwarg_only() && args.back().written;
  reshapes = out || !in_place || has_tag(handle, at::Tag::inplace_view) || facts.has(Fact::Reshapes);
  if (!writes && base.find("batch_norm") != std::string::npos) find_statistics(schema);
  strides_freely = base == "as_strided" || base == "as_strided_";
  overwrites = writes && facts.has(Fact::Overwrites);
  composite = native_kernel(handle, c10::DispatchKey::CompositeImplicitAutograd) != nullptr;
  random = has_tag(handle, at::Tag::nondeterministic_seeded);
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    random |= schema.arguments()[i].name() == "generator";
    if (schema.arguments()[i].name() == "dtype") dtype = static_cast<int>(i);
    if (schema.arguments()[i].name() == "dropout_p") dropout = static_cast<int>(i);
  }
  const bool elementwise = is_pointwise(handle) || is_view || has_tag(handle, at::Tag::inplace_view);
  raises = is_builtin(handle) ? raises_of(facts, elementwise) : Raises::Anywhere;
  dtypes = dtypes_taken(facts, is_view || has_tag(handle, at::Tag::inplace_view), elementwise);
  rule = is_builtin(handle) ? find_rule(name) : nullptr;
  unbacked_rule = is_builtin(handle) ? find_unbacked_rule(name) : nullptr;
  unstrided_rule = is_builtin(handle) ? find_unstrided_rule(name) : nullptr;
  quantised_rule = is_builtin(handle) ? find_quantised_rule(name) : nullptr;
  size_rule = is_builtin(handle) ? find_size_rule(name, has_tag(handle, at::Tag::pointwise)) : nullptr;
}
Operator::~Operator() = default;

void Operator::find_statistics(const c10::FunctionSchema& schema) {
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& argument = schema.arguments()[i].name();
    if (argument == "running_mean" || argument == "running_var") statistics.push_back(i);
    if (argument == "training" || argument == "train") training = static_cast<int>(i);
  }
}

Plan Operator::plan() const {
  std::call_once(lookup_->once, [this] { lookup_->choose(); });
  return lookup_->plan;
}
const c10::KernelFunction& Operator::kernel() const { return *lookup_->kernel; }

Operator* builtin_operator(const c10::OperatorHandle& handle) {
  // Most calls find their operator in this thread's own table, without a lock.
  thread_local std::array<std::pair<const c10::FunctionSchema*, Operator*>, 512> recent{};
  const c10::FunctionSchema* schema = &handle.schema();
  auto& slot = recent[(reinterpret_cast<std::uintptr_t>(schema) >> 6) % recent.size()];
  if (slot.first == schema) return slot.second;
  if (!is_builtin(handle)) return nullptr;
  Table& all = table();
  Operator* found = nullptr;
  {
    std::shared_lock lock(all.mutex);
    const auto it = all.operators.find(schema);
    if (it != all.operators.end()) found = it->second.get();
  }
  if (found == nullptr) {
    auto fresh = std::make_unique<Operator>(handle);
    std::unique_lock lock(all.mutex);
    found = all.operators.try_emplace(schema, std::move(fresh)).first->second.get();
  }
  slot = {schema, found};
  return found;
}

void count_without_rule(const Operator& op) {
  Table& all = table();
  std::unique_lock lock(all.mutex);
  ++all.without_rule[op.name];
}

void count_without_size_rule(const Operator& op) {
  Table& all = table();
  std::unique_lock lock(all.mutex);
  ++all.without_size_rule[op.name];
}

std::vector<std::pair<std::string, std::int64_t>> ops_without_size_rule() {
  Table& all = table();
  std::shared_lock lock(all.mutex);
  return {all.without_size_rule.begin(), all.without_size_rule.end()};
}

std::vector<std::pair<std::string, std::int64_t>> ops_without_rule() {
  Table& all = table();
  std::shared_lock lock(all.mutex);
  return {all.without_rule.begin(), all.without_rule.end()};
}

void reset_ops_without_rule() {
  Table& all = table();
  std::unique_lock lock(all.mutex);
  all.without_rule.clear();
  all.without_size_rule.clear();
}

}  // namespace pellucid::aten
