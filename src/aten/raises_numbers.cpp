// Operators that never raise on the values of tensors may still raise on their numbers: a range that is empty, a number
// that the dtype cannot hold. The numbers are known at capture, so only such calls are ones that may raise.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cmath>
#include <optional>
#include <string>

#include "aten/call.h"

namespace pellucid::aten {
namespace {

bool is_number(const c10::IValue& value) { return value.isInt() || value.isDouble(); }
double number(const c10::IValue& value) {
  return value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble();
}

// Generous: what this takes for right is right for every operator that draws random numbers.
bool range_is_right(const Call& call) {
  std::optional<double> low, high;
  for (std::size_t i = 0; i < call.size(); ++i) {
    if (!is_number(call.arg(i))) continue;
    const std::string& name = call.handle.schema().arguments()[i].name();
    const double value = number(call.arg(i));
    if (name == "p" && !(value >= 0 && value <= 1)) return false;
    if (name == "p" && call.op.name.starts_with("geometric") && !(value > 0 && value < 1)) return false;
    if ((name == "std" || name == "sigma" || name == "lambd") && !(value > 0)) return false;
    if (name == "from" || name == "low") low = value;
    if (name == "to" || name == "high") high = value;
  }
  return !high || low.value_or(0) < *high;
}

bool fits(const c10::IValue& value, c10::ScalarType dtype) {
  if (value.isComplexDouble()) return c10::isComplexType(dtype);
  const double magnitude = std::abs(number(value));
  switch (dtype) {
    case c10::ScalarType::Byte:
      return number(value) >= 0 && magnitude <= 255;
    case c10::ScalarType::Char:
      return magnitude <= 127;
    case c10::ScalarType::Short:
      return magnitude <= 32767;
    case c10::ScalarType::Int:
      return magnitude <= 2147483647.0;
    case c10::ScalarType::Long:
      return magnitude < 9.2e18;
    case c10::ScalarType::Half:
    case c10::ScalarType::ComplexHalf:
      return magnitude <= 65504 || std::isinf(magnitude) || std::isnan(magnitude);
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Float:
    case c10::ScalarType::ComplexFloat:
      return magnitude <= 3.38e38 || std::isinf(magnitude) || std::isnan(magnitude);
    case c10::ScalarType::Bool:
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexDouble:
      return true;
    default:
      return false;
  }
}

// The dtype that the numbers of a call are cast to, as far as it can be told: the narrowest of all.
bool numbers_fit(const Call& call) {
  const auto fit_all = [&](c10::ScalarType dtype) {
    for (std::size_t i = 0; i < call.size(); ++i) {
      const c10::IValue& value = call.arg(i);
      if ((is_number(value) || value.isComplexDouble()) &&
          call.handle.schema().arguments()[i].type()->kind() != c10::TypeKind::IntType && !fits(value, dtype))
        return false;
    }
    return true;
  };
  for (std::size_t i = 0; i < call.size(); ++i) {
    const c10::IValue& value = call.arg(i);
    if (value.isTensor() && value.toTensor().defined() && !fit_all(value.toTensor().scalar_type())) return false;
    if (value.isInt() && static_cast<int>(i) == call.op.dtype && !fit_all(static_cast<c10::ScalarType>(value.toInt())))
      return false;
  }
  return true;
}

// One past the last element of the storage that a tensor reaches.
std::int64_t reach(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::int64_t offset) {
  std::int64_t last = offset;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

}  // namespace

// as_strided on elements that the tensor itself does not have: the storage, whose size no guard knows, may end before.
bool Call::reaches_beyond() const {
  if (!op.strides_freely) return false;
  const at::Tensor& from = tensor(0);
  if (!arg(1).isIntList() || !arg(2).isIntList() || arg(1).toIntVector().size() != arg(2).toIntVector().size())
    return true;
  const std::int64_t offset = arg(3).isInt() ? arg(3).toInt() : from.storage_offset();
  return offset < 0 || reach(arg(1).toIntVector(), arg(2).toIntVector(), offset) >
                           reach(from.sizes(), from.strides(), from.storage_offset());
}

bool Call::numbers_may_raise() const {
  bool any = false;
  for (std::size_t i = 0; i < size(); ++i) {  // an open number, where no size is meant
    if (arg(i).isSymInt() && handle.schema().arguments()[i].real_type()->kind() == c10::TypeKind::NumberType)
      return true;
  }
  for (std::size_t i = 0; i < size(); ++i) any |= is_number(arg(i)) || arg(i).isComplexDouble();
  return any && (!numbers_fit(*this) || (op.random && !range_is_right(*this)));
}

void ask_kernel(const Call& call) {
  torch::jit::Stack asked;
  for (std::size_t i = 0; i < call.size(); ++i) {
    const c10::IValue& value = call.arg(i);
    if (value.isSymInt() || value.isSymFloat() || value.isSymBool() || value.isTensorList()) return;
    const bool is_tensor = call.has_tensor(i);
    asked.push_back(is_tensor ? c10::IValue(at::detail::empty_cpu({0}, value.toTensor().scalar_type())) : value);
  }
  call.handle.callBoxedForDispatchKey(c10::DispatchKey::CPU, asked);
}

void check_numbers(const Call& call) {
  if (call.op.random && call.op.writes && call.device.type() == c10::kCPU && !range_is_right(call)) ask_kernel(call);
}

}  // namespace pellucid::aten
