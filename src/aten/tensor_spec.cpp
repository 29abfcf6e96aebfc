// TensorSpec: what a tensor guard compares, read straight from TensorImpl; sizes and strides for whoever asks for one.
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "aten/aten.h"
#include "aten/internal.h"
#include "aten/unstrided_fake.h"
#include "aten/wrapper_subclass.h"

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

using Sizes = c10::IntArrayRef;

// Text by text what differs, in one.
class Differences {
 public:
  void add(const std::string& text) { all_.append(all_.empty() ? "" : "; ").append(text); }
  const std::string& text() const noexcept { return all_; }
  bool is_empty() const noexcept { return all_.empty(); }

 private:
  std::string all_;
};

// size(inner) * stride(inner); nothing: it leaves 64 bits.
std::optional<std::int64_t> dense_stride(std::size_t inner, Sizes sizes, Sizes strides) noexcept {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(sizes[inner], strides[inner], &product)) return std::nullopt;
  return product;
}

// Of tensors of the dispatch key Python, those that wrap others, a class may say what they are.
bool answers_in_python(const c10::TensorImpl& impl) {
  return impl.key_set().has(c10::DispatchKey::Python) && is_laid_out_in_python(impl);
}

const c10::TensorImpl* with_plain_layout(PyObject* object) {
  if (!is_tensor(object)) return nullptr;
  const c10::TensorImpl& impl = *impl_of(object);
  if (answers_in_python(impl) || impl.layout() != c10::kStrided) return nullptr;
  return impl.is_nested() || impl.has_symbolic_sizes_strides() ? nullptr : &impl;
}

// `list` gives sizes or strides. A kind of tensor that we do not know may have none, and throw.
template <class List>
bool number_at(PyObject* object, std::int64_t dim, std::int64_t* out, List&& list) noexcept {
  try {
    const c10::TensorImpl* impl = with_plain_layout(object);
    if (impl == nullptr) return false;
    const Sizes numbers = list(*impl);
    if (dim < 0 || static_cast<std::uint64_t>(dim) >= numbers.size()) return false;
    *out = numbers[static_cast<std::size_t>(dim)];
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

bool size_at(PyObject* object, std::int64_t dim, std::int64_t* out) noexcept {
  return number_at(object, dim, out, [](const c10::TensorImpl& impl) { return impl.sizes(); });
}
bool stride_at(PyObject* object, std::int64_t dim, std::int64_t* out) noexcept {
  return number_at(object, dim, out, [](const c10::TensorImpl& impl) { return impl.strides(); });
}

struct TensorSpec::Data {
  py::Owned<PyTypeObject> type;
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
  c10::Device device{c10::kCPU};
  bool requires_grad = false, leaf = true;
  enum class Layout : std::uint8_t {
    Exact,
    Open,
    Jagged,     // its parts say sizes and strides, and have guards of their own
    Unstrided,  // sparse and the like: no graph depends on how many elements are specified, nor where
    Unknown,    // no strides to compare: never proved equal, such a tensor is not guarded this way
  } kind = Layout::Exact;
  c10::Layout unstrided = c10::kStrided;  // of Unstrided
  std::optional<UnstridedFacts> facts;    // of a sparse one
  std::uint32_t ndim = 0;
  std::unique_ptr<std::int64_t[]> layout;  // sizes, then strides; of Unstrided sizes alone
  std::vector<OpenLayout::Dim> open;       // of Open: all dims

  using Stride = OpenLayout::Stride;
  bool has_layout() const noexcept { return kind == Layout::Exact || kind == Layout::Open; }
  const std::int64_t* sizes() const noexcept { return layout.get(); }
  const std::int64_t* strides() const noexcept { return layout.get() + ndim; }
  bool is_open(std::size_t dim) const noexcept { return kind == Layout::Open && open[dim].open; }
  Stride stride_kind(std::size_t dim) const noexcept { return kind == Layout::Open ? open[dim].stride : Stride::Exact; }

  void leave_open(const OpenLayout& given);
  bool size_matches(std::size_t dim, Sizes found) const noexcept {
    if (!is_open(dim)) return found[dim] == sizes()[dim];
    return open[dim].least <= found[dim] && found[dim] <= open[dim].most;
  }
  bool stride_matches(std::size_t dim, Sizes found_sizes, Sizes found) const noexcept {
    switch (stride_kind(dim)) {
      case Stride::Exact:
        return found[dim] == strides()[dim];
      case Stride::Dense:
        return dense_stride(static_cast<std::size_t>(open[dim].inner), found_sizes, found) == found[dim];
      case Stride::Open:
        break;
    }
    return found[dim] >= OpenLayout::kLeastOpenStride;
  }
  bool stride_is_large(std::size_t dim, std::size_t depth = 0) const noexcept;
  // Out of line: it would cost the exact comparison registers.
  [[gnu::noinline]] bool unstrided_matches(const c10::TensorImpl& impl) const noexcept {
    return kind == Layout::Unstrided && impl.layout() == unstrided &&
           std::ranges::equal(impl.sizes(), Sizes(sizes(), ndim)) && unstrided_facts(impl) == facts;
  }
  [[gnu::noinline]] bool open_layout_matches(const c10::TensorImpl& impl) const noexcept;
  bool layout_implies(const Data& that) const noexcept;
  std::string size_text(std::size_t dim, std::int64_t found) const;
  std::string stride_text(std::size_t dim, Sizes found_sizes, Sizes found) const;
  bool stride_follows(std::size_t dim, Sizes found_sizes, Sizes found) const noexcept;
  void add_metadata_mismatches(PyObject* object, Differences& all) const;
  void add_layout_mismatches(const c10::TensorImpl& impl, Differences& all) const;
  void add_unstrided_mismatches(const c10::TensorImpl& impl, Differences& all) const;
};

void TensorSpec::Data::leave_open(const OpenLayout& given) {
  if (given.dims.size() != ndim) throw std::logic_error("an open layout of another rank");
  for (std::uint32_t i = 0; i < ndim; ++i) {
    const OpenLayout::Dim& dim = given.dims[i];
    const bool has_inner = 0 <= dim.inner && dim.inner < static_cast<int>(ndim) && dim.inner != static_cast<int>(i);
    if (dim.stride == Stride::Dense && !has_inner) throw std::logic_error("a dense stride needs another dim");
    if (dim.open || dim.stride != Stride::Exact) kind = Layout::Open;
  }
  if (kind == Layout::Open) open = given.dims;
}

bool TensorSpec::Data::open_layout_matches(const c10::TensorImpl& impl) const noexcept {
  const Sizes found_sizes = impl.sizes();
  if (found_sizes.size() != ndim) return false;
  const Sizes found = impl.strides();
  for (std::uint32_t i = 0; i < ndim; ++i) {
    if (!size_matches(i, found_sizes) || !stride_matches(i, found_sizes, found)) return false;
  }
  return true;
}

std::string TensorSpec::Data::size_text(std::size_t dim, std::int64_t found) const {
  if (!is_open(dim)) return std::to_string(sizes()[dim]);
  const bool is_small = found < open[dim].least;
  return (is_small ? "at least " : "at most ") + std::to_string(is_small ? open[dim].least : open[dim].most);
}

std::string TensorSpec::Data::stride_text(std::size_t dim, Sizes found_sizes, Sizes found) const {
  if (stride_kind(dim) == Stride::Exact) return std::to_string(strides()[dim]);
  if (stride_kind(dim) == Stride::Open) return "at least " + std::to_string(OpenLayout::kLeastOpenStride);
  const std::string inner = std::to_string(open[dim].inner);
  const auto dense = dense_stride(static_cast<std::size_t>(open[dim].inner), found_sizes, found);
  return (dense ? std::to_string(*dense) : "more than 64 bits") + " (size(" + inner + ") * stride(" + inner + "))";
}

// This stride is the product of a size and a stride, of the same dim here and there: it differs because that does.
bool TensorSpec::Data::stride_follows(std::size_t dim, Sizes found_sizes, Sizes found) const noexcept {
  const Sizes own_sizes(sizes(), ndim), own(strides(), ndim);
  for (std::size_t inner = 0; inner < ndim; ++inner) {
    if (inner != dim && dense_stride(inner, own_sizes, own) == own[dim] &&
        dense_stride(inner, found_sizes, found) == found[dim])
      return true;
  }
  return false;
}

void TensorSpec::Data::add_layout_mismatches(const c10::TensorImpl& impl, Differences& all) const {
  const Sizes found_sizes = impl.sizes();
  if (found_sizes.size() != ndim) {
    all.add(differs("rank", std::to_string(ndim), std::to_string(found_sizes.size())));
    return;
  }
  const Sizes found = impl.strides();
  const auto place = [](std::uint32_t dim) { return " at index " + std::to_string(dim); };
  bool resized = false;
  for (std::uint32_t i = 0; i < ndim; ++i) {
    if (size_matches(i, found_sizes)) continue;
    resized = true;
    all.add(differs("size", size_text(i, found_sizes[i]), std::to_string(found_sizes[i]), place(i)));
  }
  for (std::uint32_t i = 0; i < ndim; ++i) {
    if (stride_matches(i, found_sizes, found) || (resized && stride_follows(i, found_sizes, found))) continue;
    all.add(differs("stride", stride_text(i, found_sizes, found), std::to_string(found[i]), place(i)));
  }
}

void TensorSpec::Data::add_unstrided_mismatches(const c10::TensorImpl& impl, Differences& all) const {
  if (!std::ranges::equal(impl.sizes(), Sizes(sizes(), ndim))) all.add("other sizes");
  const auto found = unstrided_facts(impl);
  if (!facts || !found || *found == *facts) return;
  if (found->coalesced != facts->coalesced)
    all.add(differs("is_coalesced", bool_text(facts->coalesced == true), bool_text(found->coalesced == true)));
  if (found->sparse_dims != facts->sparse_dims || found->dense_dims != facts->dense_dims)
    all.add(differs("sparse dims", std::to_string(facts->sparse_dims), std::to_string(found->sparse_dims)));
  if (found->block != facts->block) all.add("other sizes of blocks");
}

// All but sizes and strides; the keys of another device are others anyway. Of a tensor whose questions no Python code
// answers.
void TensorSpec::Data::add_metadata_mismatches(PyObject* object, Differences& all) const {
  const c10::TensorImpl& impl = *impl_of(object);
  const auto text_of = [](caffe2::TypeMeta of) { return dtype_text(c10::typeMetaToScalarType(of)); };
  if (impl.dtype() != dtype) all.add(differs("dtype", text_of(dtype), text_of(impl.dtype())));
  if (impl.device() != device) all.add(differs("device", device_text(device), device_text(impl.device())));
  const bool found = impl.requires_grad();
  if (found != requires_grad) all.add(differs("requires_grad", bool_text(requires_grad), bool_text(found)));
  if (impl.device() == device && impl.key_set() != keys)
    all.add(differs("dispatch key set", c10::toString(keys), c10::toString(impl.key_set())));
  if (requires_grad && found && is_leaf(object) != leaf) all.add(differs("is_leaf", bool_text(leaf), bool_text(!leaf)));
}

TensorSpec::TensorSpec() : data_(std::make_unique<Data>()) {}
TensorSpec::~TensorSpec() = default;

std::unique_ptr<TensorSpec> TensorSpec::of(PyObject* tensor, const OpenLayout* open) {
  std::unique_ptr<TensorSpec> spec(new TensorSpec);
  Data& d = *spec->data_;
  const c10::TensorImpl& impl = *impl_of(tensor);
  d.type = py::Owned<PyTypeObject>::share(Py_TYPE(tensor));
  d.keys = impl.key_set();
  d.dtype = impl.dtype();
  d.device = impl.device();
  d.requires_grad = impl.requires_grad();
  d.leaf = is_leaf(tensor);
  if (is_jagged(tensor)) {
    d.kind = Data::Layout::Jagged;
    return spec;
  }
  if (impl.is_nested() || impl.has_symbolic_sizes_strides()) {
    d.kind = Data::Layout::Unknown;
    return spec;
  }
  d.ndim = static_cast<std::uint32_t>(impl.dim());
  if (impl.layout() != c10::kStrided) {
    d.kind = Data::Layout::Unstrided;
    d.unstrided = impl.layout();
    d.facts = unstrided_facts(impl);
    d.layout = std::make_unique<std::int64_t[]>(d.ndim);
    std::copy_n(impl.sizes().data(), d.ndim, d.layout.get());
    return spec;
  }
  d.layout = std::make_unique<std::int64_t[]>(2 * std::size_t{d.ndim});
  std::copy_n(impl.sizes().data(), d.ndim, d.layout.get());
  std::copy_n(impl.strides().data(), d.ndim, d.layout.get() + d.ndim);
  if (open != nullptr) d.leave_open(*open);
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
  if (impl.has_symbolic_sizes_strides()) return d.kind == Data::Layout::Jagged;
  if (d.kind != Data::Layout::Exact)
    return d.kind == Data::Layout::Open ? d.open_layout_matches(impl) : d.unstrided_matches(impl);
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
  Differences all;
  if (Py_TYPE(object) != d.type.get()) all.add(differs("type", d.type->tp_name, Py_TYPE(object)->tp_name));
  const bool jagged = d.kind == Data::Layout::Jagged && is_tensor(object) && is_jagged(object);
  if (!jagged && (!is_tensor(object) || answers_in_python(*impl_of(object)))) return all.text();
  d.add_metadata_mismatches(object, all);
  if (d.has_layout() && with_plain_layout(object) != nullptr)
    d.add_layout_mismatches(*impl_of(object), all);
  else if (d.kind == Data::Layout::Unstrided && impl_of(object)->layout() == d.unstrided)
    d.add_unstrided_mismatches(*impl_of(object), all);
  else if (!jagged)
    all.add("layout without plain strides: never equal");
  return all.is_empty() ? "differs" : all.text();
}

// Whether a stride is what an open one may be, of every tensor that fits.
bool TensorSpec::Data::stride_is_large(std::size_t dim, std::size_t depth) const noexcept {
  switch (stride_kind(dim)) {
    case Stride::Open:
      return true;
    case Stride::Exact:
      return strides()[dim] >= OpenLayout::kLeastOpenStride;
    case Stride::Dense:
      break;
  }
  const auto inner = static_cast<std::size_t>(open[dim].inner);
  const std::int64_t least = is_open(inner) ? open[inner].least : sizes()[inner];
  if (least >= 1 && depth < ndim && stride_is_large(inner, depth + 1)) return true;
  return least >= OpenLayout::kLeastOpenStride && stride_kind(inner) == Stride::Exact && strides()[inner] >= 1;
}

// What is open in this one is open in `that`, and what is closed here fits there.
bool TensorSpec::Data::layout_implies(const Data& that) const noexcept {
  if (kind == Layout::Jagged || that.kind == Layout::Jagged) return kind == that.kind;
  if (kind == Layout::Unknown || that.kind == Layout::Unknown || ndim != that.ndim) return false;
  if (kind == Layout::Unstrided || that.kind == Layout::Unstrided)
    return kind == that.kind && unstrided == that.unstrided && facts == that.facts &&
           std::equal(sizes(), sizes() + ndim, that.sizes());
  const Sizes own_sizes(sizes(), ndim), own_strides(strides(), ndim);
  for (std::uint32_t i = 0; i < ndim; ++i) {
    const bool may_vary = is_open(i);
    if (may_vary && !that.is_open(i)) return false;
    if (may_vary && (open[i].least < that.open[i].least || open[i].most > that.open[i].most)) return false;
    if (!may_vary && !that.size_matches(i, own_sizes)) return false;
  }
  for (std::uint32_t i = 0; i < ndim; ++i) {
    const Stride own = stride_kind(i), other = that.stride_kind(i);
    if (other == Stride::Open && stride_is_large(i)) continue;
    if (own == other && own == Stride::Dense && open[i].inner == that.open[i].inner) continue;
    if (own != Stride::Exact) return false;
    if (other == Stride::Dense) {  // the product of a size and a stride: both must be the same for all tensors
      const auto inner = static_cast<std::size_t>(that.open[i].inner);
      if (is_open(inner) || stride_kind(inner) != Stride::Exact) return false;
    }
    if (!that.stride_matches(i, own_sizes, own_strides)) return false;
  }
  return true;
}

bool TensorSpec::implies(const TensorSpec& that) const noexcept {
  const Data &d = *data_, &o = *that.data_;
  return d.type.get() == o.type.get() && d.keys == o.keys && d.dtype == o.dtype && d.device == o.device &&
         d.requires_grad == o.requires_grad && (!d.requires_grad || d.leaf == o.leaf) && d.layout_implies(o);
}

bool TensorSpec::has_open() const noexcept { return data_->kind == Data::Layout::Open; }
PyTypeObject* TensorSpec::type() const noexcept { return data_->type.get(); }

bool TensorSpec::size_at(std::int64_t dim, std::int64_t* out) const noexcept {
  const Data& d = *data_;
  if (!d.has_layout() || dim < 0 || dim >= d.ndim || d.is_open(static_cast<std::size_t>(dim))) return false;
  *out = d.sizes()[dim];
  return true;
}

bool TensorSpec::stride_at(std::int64_t dim, std::int64_t* out) const noexcept {
  const Data& d = *data_;
  if (!d.has_layout() || dim < 0 || dim >= d.ndim) return false;
  if (d.stride_kind(static_cast<std::size_t>(dim)) != Data::Stride::Exact) return false;
  *out = d.strides()[dim];
  return true;
}

std::string TensorSpec::text() const {
  const Data& d = *data_;
  std::string text = dtype_text(c10::typeMetaToScalarType(d.dtype));
  text += d.kind == Data::Layout::Jagged ? " jagged[" : "[";
  for (std::uint32_t i = 0; i < d.ndim; ++i) {
    text += i > 0 ? ", " : "";
    text += d.is_open(i) ? "*" : std::to_string(d.sizes()[i]);
  }
  text += "] " + device_text(d.device) + " requires_grad=" + bool_text(d.requires_grad);
  return text;
}

}  // namespace pellucid::aten
