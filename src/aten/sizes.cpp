#include "aten/sizes.h"

#include <ATen/core/List.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "aten/operators.h"
#include "symbolic/conditions.h"

namespace pellucid::aten {

using symbolic::Comparison;
using symbolic::Value;

SizeCall::SizeCall(const Operator& op_, std::shared_ptr<SizeScope> scope, std::vector<c10::IValue> arguments)
    : SizeLayouts(std::move(scope), op_.name), op(op_), arguments_(std::move(arguments)) {}

void SizeCall::set_results(std::vector<at::Tensor> results, bool reshaped) {
  results_ = std::move(results);
  reshaped_ = reshaped;
  given_.assign(results_.size(), {});
}

std::vector<at::Tensor> SizeCall::tensors(std::size_t i) const {
  std::vector<at::Tensor> out;
  for (const c10::IValue& element : arg(i).toListRef())
    out.push_back(element.isTensor() ? element.toTensor() : at::Tensor());
  return out;
}

namespace {

const Expr* expr_of_value(SizeScope& scope, const c10::IValue& value) {
  return value.isSymInt() ? expr_of(scope, value.toSymInt()) : scope.space.constant(Value::of(value.toInt()));
}

}  // namespace

const Expr* SizeCall::number(std::size_t i) { return expr_of_value(*scope(), arg(i)); }

Exprs SizeCall::numbers(std::size_t i) {
  Exprs out;
  if (arg(i).isIntList()) {
    for (const std::int64_t number : arg(i).toIntVector()) out.push_back(constant(number));
    return out;
  }
  for (const c10::IValue& element : arg(i).toListRef()) out.push_back(expr_of_value(*scope(), element));
  return out;
}

void SizeCall::fix_all() {
  const auto fix = [&](const Expr* number) { (void)plain(number); };
  const auto fix_tensor = [&](const at::Tensor& tensor) {
    const SymbolicFake* fake = tensor.defined() ? symbolic_fake(tensor) : nullptr;
    if (fake == nullptr) return;
    const Shape shape = fake->shape();
    std::ranges::for_each(shape.sizes, fix);
    std::ranges::for_each(shape.strides, fix);
    fix(shape.offset);
  };
  const auto fix_value = [&](const c10::IValue& value) {
    if (value.isTensor()) fix_tensor(value.toTensor());
    if (value.isSymInt()) fix(expr_of(*scope(), value.toSymInt()));
  };
  for (const c10::IValue& value : arguments_) {
    fix_value(value);
    if (!value.isList() || value.isIntList()) continue;
    for (const c10::IValue& element : value.toListRef()) fix_value(element);
  }
}

void SizeCall::give(std::size_t k, const Exprs& sizes) {
  if (k >= results()) return require_written(sizes);
  const QuietScope hints;
  // A dimension without elements changes the strides of those around it: such sizes are for another capture.
  for (const int d : inner_dims(result(k).sizes(), result(k).strides())) {
    const Expr* size = d < 0 ? nullptr : sizes[static_cast<std::size_t>(d)];
    if (size != nullptr && !size->is_constant() && size->hint.i >= 1) require_at_least(size, 1);
  }
  auto strides = dense_strides(space(), sizes, result(k).strides());
  if (!strides) return;
  given_[k] = {sizes, std::move(*strides), constant(result(k).storage_offset())};
}

void SizeCall::give(std::size_t k, const Shape& shape) {
  if (k >= results()) return require_written(shape.sizes);
  given_[k] = shape;
}

void SizeCall::require_written(const Exprs& sizes) {
  if (reshaped_) return;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!op.args[i].written || !has_tensor(i)) continue;
    const Shape written = shape(i);
    TORCH_CHECK(written.sizes.size() == sizes.size(), "pellucid: aten::", op.name, " writes a tensor of another rank");
    for (std::size_t d = 0; d < sizes.size(); ++d) require_equal(written.sizes[d], sizes[d]);
  }
}

void give_in_format_of(SizeCall& call, std::size_t k, std::size_t arg, const Exprs& sizes) {
  const c10::MemoryFormat format = call.format_of(call.tensor(arg));
  // The results are still those of the run at the hints.
  call.give_format(k, sizes, call.result(k).is_contiguous() ? c10::MemoryFormat::Contiguous : format);
}

SizeRule find_size_rule(const std::string& name, bool is_elementwise) {
  static const auto& rules = *[] {
    auto* all = new std::unordered_map<std::string_view, SizeRule>;
    for (const SizeTable& table :
         {like_sizes(), view_sizes(), part_sizes(), matmul_sizes(), reduce_sizes(), join_sizes(), index_sizes(),
          window_sizes(), make_sizes(), linalg_sizes(), nn_sizes(), backward_sizes()}) {
      for (std::size_t i = 0; i < table.size; ++i) all->emplace(table.rows[i].op, table.rows[i].value);
    }
    return all;
  }();
  const auto find = [&](std::string_view key) {
    const auto found = rules.find(key);
    return found == rules.end() ? nullptr : found->second;
  };
  const std::string base = name.substr(0, name.find('.')), overload = name.substr(base.size());
  if (overload == ".vec") return nullptr;  // sizes or factors: made of the operator that takes sizes
  const bool in_place = base.size() > 1 && base.back() == '_' && base[base.size() - 2] != '_';
  for (const std::string& form : {base, in_place ? base.substr(0, base.size() - 1) : base}) {
    if (const SizeRule rule = find(form + overload)) return rule;
    if (const SizeRule rule = find(form)) return rule;
  }
  return is_elementwise ? broadcast_sizes : nullptr;
}

}  // namespace pellucid::aten
