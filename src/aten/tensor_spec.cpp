// TensorSpec: what a tensor guard compares, read straight from TensorImpl.
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include "aten/aten.h"
#include "aten/internal.h"

namespace pellucid::aten {
namespace {

const char* dtype_text(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return "f32";
    case c10::ScalarType::Double:
      return "f64";
    case c10::ScalarType::Half:
      return "f16";
    case c10::ScalarType::BFloat16:
      return "bf16";
    case c10::ScalarType::Long:
      return "i64";
    case c10::ScalarType::Int:
      return "i32";
    case c10::ScalarType::Short:
      return "i16";
    case c10::ScalarType::Char:
      return "i8";
    case c10::ScalarType::Byte:
      return "u8";
    case c10::ScalarType::Bool:
      return "b8";
    case c10::ScalarType::ComplexFloat:
      return "c64";
    case c10::ScalarType::ComplexDouble:
      return "c128";
    default:
      return c10::toString(type);
  }
}

std::string device_text(const c10::Device& device) {
  std::string text = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  return device.has_index() && device.type() != c10::kCPU ? text + ":" + std::to_string(device.index()) : text;
}

const char* bool_text(bool value) { return value ? "True" : "False"; }

std::string differs(const std::string& what, const std::string& expected, const std::string& actual,
                    const std::string& place = "") {
  return what + " mismatch" + place + ", expected " + expected + ", actual " + actual;
}

}  // namespace

struct TensorSpec::Data {
  py::Owned<PyTypeObject> type;
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
  c10::Device device{c10::kCPU};
  bool requires_grad = false, leaf = true, strided = true;
  std::uint32_t ndim = 0;
  std::unique_ptr<std::int64_t[]> layout;  // sizes, then strides

  const std::int64_t* sizes() const { return layout.get(); }
  const std::int64_t* strides() const { return layout.get() + ndim; }
};

TensorSpec::TensorSpec() : data_(std::make_unique<Data>()) {}
TensorSpec::~TensorSpec() = default;

std::unique_ptr<TensorSpec> TensorSpec::of(PyObject* tensor) {
  std::unique_ptr<TensorSpec> spec(new TensorSpec);
  Data& d = *spec->data_;
  const c10::TensorImpl& impl = *impl_of(tensor);
  d.type = py::Owned<PyTypeObject>::share(Py_TYPE(tensor));
  d.keys = impl.key_set();
  d.dtype = impl.dtype();
  d.device = impl.device();
  d.requires_grad = impl.requires_grad();
  d.leaf = is_leaf(tensor);
  d.strided = impl.layout() == c10::kStrided && !impl.is_nested() && !impl.has_symbolic_sizes_strides();
  if (!d.strided)
    return spec;  // no strides to compare: the key set holds the layout, sizes are compared where they are plain
  d.ndim = static_cast<std::uint32_t>(impl.dim());
  d.layout = std::make_unique<std::int64_t[]>(2 * std::size_t{d.ndim});
  std::copy_n(impl.sizes().data(), d.ndim, d.layout.get());
  std::copy_n(impl.strides().data(), d.ndim, d.layout.get() + d.ndim);
  return spec;
}

bool TensorSpec::matches(PyObject* object) const noexcept {
  const Data& d = *data_;
  if (Py_TYPE(object) != d.type.get()) return false;
  const c10::TensorImpl& impl = *impl_of(object);
  if (impl.key_set() != d.keys || impl.dtype() != d.dtype || impl.device() != d.device) return false;
  const AutogradState autograd = autograd_state(object);
  if (autograd.requires_grad != d.requires_grad) return false;
  if (d.requires_grad && autograd.leaf != d.leaf) return false;
  if (!d.strided || impl.has_symbolic_sizes_strides())
    return false;  // never proved equal: such a tensor is not guarded this way
  const auto sizes = impl.sizes();
  if (sizes.size() != d.ndim) return false;
  const auto strides = impl.strides();
  for (std::uint32_t i = 0; i < d.ndim; ++i) {
    if (sizes[i] != d.sizes()[i] || strides[i] != d.strides()[i]) return false;
  }
  return true;
}

std::string TensorSpec::mismatch(PyObject* object) const {
  if (matches(object)) return {};
  const Data& d = *data_;
  if (Py_TYPE(object) != d.type.get()) return differs("type", d.type->tp_name, Py_TYPE(object)->tp_name);
  const c10::TensorImpl& impl = *impl_of(object);
  if (impl.dtype() != d.dtype)
    return differs("dtype", dtype_text(c10::typeMetaToScalarType(d.dtype)),
                   dtype_text(c10::typeMetaToScalarType(impl.dtype())));
  if (impl.device() != d.device) return differs("device", device_text(d.device), device_text(impl.device()));
  if (impl.requires_grad() != d.requires_grad)
    return differs("requires_grad", bool_text(d.requires_grad), bool_text(impl.requires_grad()));
  if (impl.key_set() != d.keys)
    return differs("dispatch key set", c10::toString(d.keys), c10::toString(impl.key_set()));
  if (d.requires_grad && is_leaf(object) != d.leaf) return differs("is_leaf", bool_text(d.leaf), bool_text(!d.leaf));
  if (!d.strided || impl.has_symbolic_sizes_strides()) return "layout without plain strides: never equal";
  if (impl.sizes().size() != d.ndim)
    return differs("rank", std::to_string(d.ndim), std::to_string(impl.sizes().size()));
  for (const auto& [what, want, have] :
       {std::tuple{"size", d.sizes(), impl.sizes()}, std::tuple{"stride", d.strides(), impl.strides()}}) {
    for (std::uint32_t i = 0; i < d.ndim; ++i) {
      if (want[i] != have[i]) {
        return differs(what, std::to_string(want[i]), std::to_string(have[i]), " at index " + std::to_string(i));
      }
    }
  }
  return "differs";
}

std::string TensorSpec::text() const {
  const Data& d = *data_;
  std::string text = dtype_text(c10::typeMetaToScalarType(d.dtype));
  text += "[";
  for (std::uint32_t i = 0; i < d.ndim; ++i) text += (i > 0 ? ", " : "") + std::to_string(d.sizes()[i]);
  text += "] " + device_text(d.device) + " requires_grad=" + bool_text(d.requires_grad);
  return text;
}

}  // namespace pellucid::aten
