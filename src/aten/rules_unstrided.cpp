// What operators give of sparse tensors: torch has meta kernels for few of them, and some of these say other things
// than eager. Only what all kernels of the CPU are known to give has a row; where a row does not cover a call, the
// region ends before it.
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "aten/call.h"
#include "aten/rules.h"
#include "aten/unstrided_fake.h"

namespace pellucid::aten {
namespace {

const UnstridedFacts* facts_of(const at::Tensor& tensor) {
  const UnstridedFake* fake = unstrided_fake(tensor.unsafeGetTensorImpl());
  return fake == nullptr ? nullptr : &fake->facts();
}

bool is_coo(const at::Tensor& tensor) {
  const UnstridedFacts* facts = facts_of(tensor);
  return facts != nullptr && facts->layout == c10::kSparse;
}

// Whether it is COO without dense dims, or compressed without batches and dense dims.
bool is_sparse_in_all(const at::Tensor& tensor) {
  const UnstridedFacts* facts = facts_of(tensor);
  return facts != nullptr && facts->dense_dims == 0 && facts->sparse_dims == tensor.dim();
}

bool is_dense(const at::Tensor& tensor) { return tensor.defined() && facts_of(tensor) == nullptr; }

// ---- products

// Of two matrices, of which one is sparse. Where a strided one stands before a COO one the kernel computes the
// transposed product.
bool product(Call& call, const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor& sparse = facts_of(first) != nullptr ? first : second;
  const at::Tensor& dense = facts_of(first) != nullptr ? second : first;
  if (!is_sparse_in_all(sparse) || !is_dense(dense) || dense.dim() != 2 || sparse.dim() != 2) return false;
  if (first.scalar_type() != second.scalar_type() || first.size(1) != second.size(0)) return false;
  const std::int64_t rows = first.size(0), columns = second.size(1);
  const bool is_transposed = &sparse == &second && is_coo(sparse);
  if (!is_transposed) {
    call.give(call.fresh({rows, columns}, first.scalar_type()));
    return true;
  }
  call.give(call.fresh({rows, columns}, {1, std::max<std::int64_t>(rows, 1)}, first.scalar_type()));
  return true;
}

bool mm(Call& call) { return product(call, at::Tensor(call.tensor(0)), at::Tensor(call.tensor(1))); }

// self, mat1, mat2, beta, alpha
bool addmm(Call& call) {
  const at::Tensor self = call.tensor(0), first = call.tensor(1), second = call.tensor(2);
  if (!is_dense(self) || facts_of(first) == nullptr || self.scalar_type() != first.scalar_type()) return false;
  if (self.dim() > 2 || !at::is_expandable_to(self.sizes(), {first.size(0), second.size(-1)})) return false;
  return product(call, first, second);
}

bool mv(Call& call) {
  const at::Tensor matrix = call.tensor(0), vector = call.tensor(1);
  if (!is_sparse_in_all(matrix) || matrix.dim() != 2 || !is_dense(vector) || vector.dim() != 1) return false;
  if (matrix.size(1) != vector.size(0) || matrix.scalar_type() != vector.scalar_type()) return false;
  call.give(call.fresh({matrix.size(0)}, matrix.scalar_type()));
  return true;
}

// Of COO tensors of three dims alone.
bool bmm(Call& call) {
  const at::Tensor first = call.tensor(0), second = call.tensor(1);
  if (!is_coo(first) || !is_sparse_in_all(first) || !is_dense(second) || first.dim() != 3 || second.dim() != 3)
    return false;
  const bool fits = first.size(0) == second.size(0) && first.size(2) == second.size(1);
  if (!fits || first.scalar_type() != second.scalar_type()) return false;
  call.give(call.fresh({first.size(0), first.size(1), second.size(2)},
                       {first.size(1) * second.size(2), 1, first.size(1)}, first.scalar_type()));
  return true;
}

// ---- dense results

// self, dtype, masked_grad
bool to_dense(Call& call) {
  const at::Tensor self = call.tensor(0);
  if (!call.arg(1).isNone() && call.arg(1).toScalarType() != self.scalar_type()) return false;
  call.give(call.fresh(self.sizes(), self.scalar_type()));
  return true;
}

// self, dtype
bool sum(Call& call) {
  const at::Tensor self = call.tensor(0);
  if (!call.arg(1).isNone() || c10::isIntegralType(self.scalar_type(), /*includeBool=*/true)) return false;
  call.give(call.fresh({}, self.scalar_type()));
  return true;
}

bool are_alike(const at::Tensor& first, const at::Tensor& second) {
  return first.scalar_type() == second.scalar_type() && first.sizes() == second.sizes();
}

// self, other, alpha: of a strided tensor and a sparse one, which stands first where it is no COO
bool add(Call& call) {
  const at::Tensor self = call.tensor(0), other = call.tensor(1);
  const at::Tensor& sparse = is_dense(self) ? other : self;
  const at::Tensor& dense = is_dense(self) ? self : other;
  if (!is_dense(dense) || !are_alike(self, other) || !dense.is_contiguous() || !is_sparse_in_all(sparse)) return false;
  const c10::Layout layout = facts_of(sparse)->layout;
  const bool has_kernel = layout == c10::kSparseCsr || layout == c10::kSparseCsc || (is_coo(sparse) && is_dense(self));
  if (!has_kernel) return false;
  call.give(call.fresh(self.sizes(), self.scalar_type()));
  return true;
}

// Above autograd: torch's kernel reads the elements. The sum of all has the same metadata, and the same gradients.
bool sparse_sum(Call& call) {
  const at::Tensor self = call.tensor(0);
  if (!is_coo(self)) return false;
  call.give(at::sum(self));
  return true;
}

// ---- sparse results

bool with_facts(Call& call, const at::Tensor& like, const UnstridedFacts& facts, bool shares = false) {
  call.give(unstrided_result(like, like.scalar_type(), like.sizes(), facts, shares));
  return true;
}

// Whether a COO result is coalesced is up to its kernel and the values, so nobody may ask.
UnstridedFacts computed(UnstridedFacts facts) {
  if (facts.layout == c10::kSparse) facts.coalesced = std::nullopt;
  return facts;
}

bool of_each_element(Call& call) {
  const at::Tensor self = call.tensor(0);
  if (!c10::isFloatingType(self.scalar_type())) return false;
  return with_facts(call, self, computed(*facts_of(self)));
}

// A sparse tensor and a number.
bool scaled(Call& call) {
  const at::Tensor self = call.tensor(0), factor = call.tensor(1);
  const bool is_number = is_dense(factor) && factor.unsafeGetTensorImpl()->is_wrapped_number();
  if (!is_number || facts_of(self) == nullptr || !c10::isFloatingType(self.scalar_type())) return false;
  if (c10::isComplexType(factor.scalar_type())) return false;
  return with_facts(call, self, computed(*facts_of(self)));
}

// Two sparse tensors of one layout, one and a strided one, or a number.
bool multiplied(Call& call) {
  const at::Tensor self = call.tensor(0), other = call.tensor(1);
  if (facts_of(self) == nullptr) return false;
  if (scaled(call)) return true;
  const UnstridedFacts* facts = facts_of(other);
  const c10::Layout layout = facts_of(self)->layout;
  if (!are_alike(self, other) || !is_sparse_in_all(self) || !c10::isFloatingType(self.scalar_type())) return false;
  if (layout != c10::kSparse && layout != c10::kSparseCsr) return false;
  if (facts != nullptr && (facts->layout != layout || !is_sparse_in_all(other))) return false;
  return with_facts(call, self, computed(*facts_of(self)));
}

// self, dim, half_to_float
bool softmax(Call& call) {
  const at::Tensor self = call.tensor(0);
  return is_coo(self) && !call.arg(2).toBool() && of_each_element(call);
}

// self, mat1, mat2, beta, alpha
bool sampled_addmm(Call& call) {
  const at::Tensor self = call.tensor(0), first = call.tensor(1), second = call.tensor(2);
  if (facts_of(self) == nullptr || facts_of(self)->layout != c10::kSparseCsr || !is_sparse_in_all(self)) return false;
  if (!is_dense(first) || !is_dense(second) || first.dim() != 2 || second.dim() != 2) return false;
  const bool fits = first.size(0) == self.size(0) && second.size(1) == self.size(1) && first.size(1) == second.size(0);
  if (!fits || first.scalar_type() != self.scalar_type() || second.scalar_type() != self.scalar_type()) return false;
  return with_facts(call, self, *facts_of(self));
}

// self, dtype, layout, device, pin_memory, non_blocking, memory_format
bool to_copy(Call& call) {
  const at::Tensor self = call.tensor(0);
  const bool is_plain = call.arg(2).isNone() && call.arg(3).isNone() && call.arg(4).isNone() && call.arg(6).isNone();
  if (!is_plain || call.arg(1).isNone() || !c10::isFloatingType(self.scalar_type())) return false;
  const c10::ScalarType dtype = call.arg(1).toScalarType();
  if (!c10::isFloatingType(dtype)) return false;
  call.give(unstrided_result(self, dtype, self.sizes(), computed(*facts_of(self)), /*shares=*/false));
  return true;
}

// self, dense_dim
bool to_csr(Call& call) {
  const at::Tensor self = call.tensor(0);
  const c10::Layout layout = facts_of(self)->layout;
  if (!call.arg(1).isNone() || !is_sparse_in_all(self) || self.dim() != 2) return false;
  if (layout != c10::kSparse && layout != c10::kSparseCsc) return false;
  return with_facts(call, self, {.layout = c10::kSparseCsr, .sparse_dims = 2, .coalesced = std::nullopt});
}

bool divided(Call& call) { return is_coo(call.tensor(0)) && scaled(call); }

bool detach(Call& call) {
  const at::Tensor self = call.tensor(0);
  return with_facts(call, self, *facts_of(self), /*shares=*/true);
}

bool clone(Call& call) {
  const at::Tensor self = call.tensor(0);
  return call.arg(1).isNone() && with_facts(call, self, computed(*facts_of(self)));
}

bool coalesce(Call& call) {
  const at::Tensor self = call.tensor(0);
  UnstridedFacts facts = *facts_of(self);
  facts.coalesced = true;
  return with_facts(call, self, facts);
}

const char* python_name(c10::Layout layout) {
  switch (layout) {
    case c10::kSparseCsr:
      return "torch.sparse_csr";
    case c10::kSparseCsc:
      return "torch.sparse_csc";
    case c10::kSparseBsr:
      return "torch.sparse_bsr";
    case c10::kSparseBsc:
      return "torch.sparse_bsc";
    default:
      return "torch.sparse_coo";
  }
}

c10::Layout transposed(c10::Layout layout) {
  switch (layout) {
    case c10::kSparseCsr:
      return c10::kSparseCsc;
    case c10::kSparseCsc:
      return c10::kSparseCsr;
    case c10::kSparseBsr:
      return c10::kSparseBsc;
    case c10::kSparseBsc:
      return c10::kSparseBsr;
    default:
      return layout;
  }
}

// The kernel of compressed tensors gives other members that share memory, that of COO ones new indices.
bool transposed(Call& call, std::int64_t first, std::int64_t second) {
  const at::Tensor self = call.tensor(0);
  if (!is_sparse_in_all(self) || self.dim() != 2) return false;
  const bool is_swap =
      first != second && std::abs(first - second) == 1 && first >= -2 && first < 2 && second >= -2 && second < 2;
  if (!is_swap) return false;
  UnstridedFacts facts = computed(*facts_of(self));
  facts.layout = transposed(facts.layout);
  std::swap(facts.block[0], facts.block[1]);
  call.give(unstrided_result(self, self.scalar_type(), {self.size(1), self.size(0)}, facts, /*shares=*/true));
  return true;
}

bool t(Call& call) { return transposed(call, 0, 1); }
bool transpose(Call& call) { return transposed(call, call.arg(1).toInt(), call.arg(2).toInt()); }

// ---- what guards compare

bool is_coalesced(Call& call) {
  const UnstridedFacts* facts = facts_of(call.tensor(0));
  if (facts->layout != c10::kSparse || !facts->coalesced) return false;
  call.give(*facts->coalesced);
  return true;
}

bool sparse_dim(Call& call) {
  call.give(facts_of(call.tensor(0))->sparse_dims);
  return true;
}

bool dense_dim(Call& call) {
  call.give(facts_of(call.tensor(0))->dense_dims);
  return true;
}

constexpr RuleRow kRows[] = {
    {"mm", mm},
    {"addmm", addmm},
    {"_sparse_addmm", addmm},
    {"mv", mv},
    {"_to_dense", to_dense},
    {"sum", sum},
    {"_sparse_sum", sparse_sum},
    {"_coalesce", coalesce},
    {"_sparse_log_softmax", softmax},
    {"_sparse_softmax", softmax},
    {"_to_copy", to_copy},
    {"_to_sparse_csr", to_csr},
    {"abs", of_each_element},
    {"add.Tensor", add},
    {"asin", of_each_element},
    {"asinh", of_each_element},
    {"atan", of_each_element},
    {"bmm", bmm},
    {"ceil", of_each_element},
    {"clone", clone},
    {"dense_dim", dense_dim},
    {"detach", detach},
    {"div.Tensor", divided},
    {"erf", of_each_element},
    {"expm1", of_each_element},
    {"floor", of_each_element},
    {"is_coalesced", is_coalesced},
    {"log1p", of_each_element},
    {"mul.Tensor", multiplied},
    {"neg", of_each_element},
    {"relu", of_each_element},
    {"round", of_each_element},
    {"sin", of_each_element},
    {"sinh", of_each_element},
    {"sparse_dim", sparse_dim},
    {"sparse_sampled_addmm", sampled_addmm},
    {"sqrt", of_each_element},
    {"t", t},
    {"tan", of_each_element},
    {"tanh", of_each_element},
    {"transpose.int", transpose},
    {"trunc", of_each_element},
};

}  // namespace

Rule find_unstrided_rule(const std::string& name) { return find_in(kRows, name); }

namespace {

// The layout of the first such argument, as Python has it.
const char* kind_of(const Call& call) {
  const char* name = "";
  for (std::size_t i = call.size(); i-- > 0;) {
    for_each_tensor(call.arg(i), [&](const at::Tensor& tensor) {
      if (const UnstridedFacts* facts = facts_of(tensor)) name = python_name(facts->layout);
    });
  }
  return name;
}

// Writes are none of these, nor has anybody seen what other devices give. What kernels refuse is theirs to say when the
// graph runs.
bool runs_by_rule(Call& call, c10::DispatchKeySet keys) {
  const Operator& op = call.op;
  const Rule known = op.unstrided_rule;
  if (known == nullptr && op.composite && op.plan() == Plan::Decompose) {
    op.kernel().callBoxed(call.handle, keys, &call.stack);
    return true;
  }
  if (known == nullptr || op.writes || call.device.type() != c10::kCPU) return false;
  if (!op.composite) call.note_facts();
  if (!known(call)) return false;
  Call::note_may_raise();
  return true;
}

}  // namespace

void run_unstrided(Call& call, c10::DispatchKeySet keys) {
  TORCH_CHECK_NOT_IMPLEMENTED(runs_by_rule(call, keys), "pellucid: no fake kernel for aten::", call.op.name, " of a ",
                              kind_of(call), " tensor");
}

}  // namespace pellucid::aten
