// Factories: their sizes are said by numbers.
#include <c10/core/MemoryFormat.h>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

Exprs checked(SizeCall& call, Exprs sizes) {
  for (const Expr* size : sizes) call.require_at_least(size, 0);
  return sizes;
}

// Argument `sizes` says them all; `format`: the position of a memory format, 0 if there is none.
template <std::size_t sizes, std::size_t format = 0>
bool of_sizes(SizeCall& call) {
  const bool plain = format == 0 || call.is_none(format);
  const auto wanted = plain ? c10::MemoryFormat::Contiguous : call.arg(format).toMemoryFormat();
  call.give_format(0, checked(call, call.numbers(sizes)), wanted);
  return true;
}

// The layouts that fit an allocation are the program's to know: the strides are taken as they are.
template <std::size_t sizes>
bool strided(SizeCall& call) {
  const Exprs strides = call.numbers(sizes + 1);
  for (const Expr* stride : strides) call.require_at_least(stride, 0);
  call.give(0, {checked(call, call.numbers(sizes)), strides, call.constant(0)});
  return true;
}

bool eye(SizeCall& call) {
  const bool square = !call.arg(1).isInt() && !call.arg(1).isSymInt();
  call.give_contiguous(0, checked(call, {call.number(0), call.number(square ? 0 : 1)}));
  return true;
}

// An int among the numbers of arange; null for a float.
const Expr* integer(SizeCall& call, std::size_t i) {
  return call.arg(i).isInt() || call.arg(i).isSymInt() ? call.number(i) : nullptr;
}

// ceil((end - start) / step) numbers.
bool arange_of(SizeCall& call, const Expr* start, const Expr* end, const Expr* step) {
  if (start == nullptr || end == nullptr || step == nullptr) return false;
  const bool up = call.at_least(step, 1);
  if (!up) call.require(call.compare(symbolic::Comparison::Lt, step, call.constant(0)));
  const Expr* length = up ? call.sub(end, start) : call.sub(start, end);
  const Expr* stride = up ? step : call.sub(call.constant(0), step);
  call.require_at_least(length, 0);
  if (!stride->is_constant(1)) length = call.floordiv(call.sub(call.add(length, stride), 1), stride);
  call.give_contiguous(0, {length});
  return true;
}
bool arange(SizeCall& call) { return arange_of(call, call.constant(0), integer(call, 0), call.constant(1)); }
bool arange_start(SizeCall& call) { return arange_of(call, integer(call, 0), integer(call, 1), call.constant(1)); }
bool arange_step(SizeCall& call) { return arange_of(call, integer(call, 0), integer(call, 1), integer(call, 2)); }

// As many as argument 2 says.
bool steps(SizeCall& call) {
  call.give_contiguous(0, checked(call, {call.number(2)}));
  return true;
}

bool random_permutation(SizeCall& call) {
  call.give_contiguous(0, checked(call, {call.number(0)}));
  return true;
}

bool scalar(SizeCall& call) {
  call.give_contiguous(0, {});
  return true;
}

constexpr SizeRow kRows[] = {
    {"empty.memory_format", of_sizes<0, 5>},
    {"empty_strided", strided<0>},
    {"new_empty_strided", strided<1>},
    {"new_empty", of_sizes<1>},
    {"new_zeros", of_sizes<1>},
    {"new_ones", of_sizes<1>},
    {"new_full", of_sizes<1>},
    {"zeros", of_sizes<0>},
    {"ones", of_sizes<0>},
    {"full", of_sizes<0>},
    {"rand", of_sizes<0>},
    {"randn", of_sizes<0>},
    {"randint", of_sizes<1>},
    {"randint.generator", of_sizes<1>},
    {"randint.low", of_sizes<2>},
    {"randint.low_generator", of_sizes<2>},
    {"randperm", random_permutation},
    {"eye", eye},
    {"eye.m", eye},
    {"arange", arange},
    {"arange.start", arange_start},
    {"arange.start_step", arange_step},
    {"linspace", steps},
    {"logspace", steps},
    {"scalar_tensor", scalar},
};

}  // namespace

SizeTable make_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
