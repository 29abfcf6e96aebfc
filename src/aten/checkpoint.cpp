// Taking back what a graph did to its inputs before it raised. Nothing here is seen by autograd: the version counters
// and the functions of the tensors are put back as well.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/SizesAndStrides.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "aten/aten.h"
#include "aten/internal.h"

namespace pellucid::aten {
namespace {

namespace autograd = torch::autograd;

at::Tensor tensor_of(PyObject* object) {
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(impl_of(object)));
}

autograd::AutogradMeta* autograd_meta_of(const at::Tensor& tensor) noexcept {
  return static_cast<autograd::AutogradMeta*>(tensor.unsafeGetTensorImpl()->autograd_meta());
}

// What autograd knows of a view, else null. `impl` is only read: taking a reference to it would take one to its Python
// object.
autograd::DifferentiableViewMeta* view_meta_of(const c10::TensorImpl& impl) noexcept {
  auto* meta = static_cast<autograd::AutogradMeta*>(impl.autograd_meta());
  if (meta == nullptr || !meta->is_view_) return nullptr;
  auto* view = static_cast<autograd::DifferentiableViewMeta*>(meta);
  return view->has_bw_view() ? view : nullptr;
}

autograd::DifferentiableViewMeta* view_meta_of(const at::Tensor& tensor) noexcept {
  return view_meta_of(*tensor.unsafeGetTensorImpl());
}

bool is_same(const c10::Storage& a, const c10::Storage& b) noexcept {
  return a.unsafeGetStorageImpl() == b.unsafeGetStorageImpl();
}

struct AutogradPart {
  c10::intrusive_ptr<autograd::Node> function;
  std::uint32_t output = 0;
  bool requires_grad = false;
  std::uint32_t view_version = 0;
  autograd::CreationMeta creation{};

  static AutogradPart of(const at::Tensor& tensor) {
    AutogradPart part;
    const autograd::AutogradMeta* meta = autograd_meta_of(tensor);
    if (meta == nullptr) return part;
    part.function = meta->grad_fn_;
    part.output = meta->output_nr_;
    part.requires_grad = meta->requires_grad_;
    if (auto* view = view_meta_of(tensor)) {
      part.view_version = view->get_attr_version();
      part.creation = view->get_creation_meta();
    }
    return part;
  }

  void restore(const at::Tensor& tensor) const {
    autograd::AutogradMeta* meta = autograd_meta_of(tensor);
    if (meta == nullptr) return;
    if (meta->retains_grad_ && meta->grad_fn_ && function && meta->grad_fn_ != function) move_hook(*meta);
    meta->grad_fn_ = function;
    meta->output_nr_ = output;
    meta->requires_grad_ = requires_grad;
    if (auto* view = view_meta_of(tensor)) {
      view->set_attr_version(view_version);
      view->set_creation_meta(creation);
    }
  }

 private:
  // What retain_grad() has registered went to the new function with the write.
  void move_hook(autograd::AutogradMeta& meta) const {
    auto hook = meta.grad_fn_->pop_retains_grad_hook(meta.output_nr_);
    if (hook) function->add_retains_grad_hook(std::move(hook), output);
  }
};

struct Saved {
  at::Tensor tensor;
  Keep keep;
  c10::VariableVersion counter;  // shared with the tensor
  std::uint32_t version = 0;
  c10::impl::SizesAndStrides layout;
  std::int64_t offset;
  c10::Storage storage;
  AutogradPart autograd;

  Saved(const at::Tensor& saved, Keep how)
      : tensor(saved), keep(how), counter(c10::VariableVersion::DISABLED), autograd(AutogradPart::of(saved)) {
    c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!impl.is_inference()) {
      counter = impl.version_counter();
      version = counter.current_version();
    }
    layout.set_sizes(impl.sizes());
    layout.set_strides(impl.strides());
    offset = impl.storage_offset();
    storage = impl.unsafe_storage();
  }

  bool is_unwritten() const {
    if (keep != Keep::Version) return keep != Keep::Untraced;
    return counter.enabled() && counter.current_version() == version;
  }

  void restore() {
    c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!is_same(impl.unsafe_storage(), storage)) impl.set_storage_keep_dtype(storage);
    const at::IntArrayRef sizes = layout.sizes_arrayref(), strides = layout.strides_arrayref();
    if (impl.sizes() != sizes || impl.strides() != strides || impl.storage_offset() != offset)
      impl.set_sizes_and_strides(sizes, strides, offset);
    autograd.restore(tensor);
    if (counter.enabled()) counter.set_version(version);
  }
};

// Below autograd and every mode: plain memory.
const c10::DispatchKeySet kAboveMemory =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::Fake});

at::Tensor bytes_of(const c10::Storage& storage) {
  at::Tensor bytes = at::empty({0}, at::TensorOptions(at::kByte).device(storage.device()));
  bytes.set_(storage, 0, {static_cast<std::int64_t>(storage.nbytes())}, {1});
  return bytes;
}

struct Contents {
  c10::Storage storage;
  std::size_t size;
  at::Tensor copy;  // of an accelerator
  c10::DataPtr memory;

  explicit Contents(const c10::Storage& saved) : storage(saved), size(saved.nbytes()) {
    if (size == 0) return;
    if (storage.device_type() != c10::kCPU) {
      copy = bytes_of(storage).clone();
      return;
    }
    memory = c10::GetAllocator(c10::kCPU)->allocate(size);
    std::memcpy(memory.mutable_get(), storage.data(), size);
  }

  bool restore() {
    if (storage.nbytes() < size) return false;
    if (size == 0) return true;
    if (storage.device_type() == c10::kCPU) {
      std::memcpy(storage.mutable_data(), memory.get(), size);
    } else {
      bytes_of(storage).narrow(0, 0, static_cast<std::int64_t>(size)).copy_(copy);
    }
    return true;
  }
};

// torch makes a Python object while it holds a generator, so another thread that holds one may be waiting for the GIL:
// nobody may wait for it with the GIL.
std::unique_lock<std::mutex> locked(at::Generator& generator) {
  std::unique_lock<std::mutex> lock(generator.mutex(), std::try_to_lock);
  while (!lock.owns_lock()) {
    PyThreadState* const here = PyEval_SaveThread();
    std::this_thread::yield();
    PyEval_RestoreThread(here);
    (void)lock.try_lock();
  }
  return lock;
}

struct GeneratorState {
  at::Generator generator;
  at::Tensor state;

  explicit GeneratorState(at::Generator saved) : generator(std::move(saved)) {
    const auto lock = locked(generator);
    state = generator.get_state();
  }
  void restore() {
    const auto lock = locked(generator);
    generator.set_state(state);
  }
};

template <class F>
auto in_plain_memory(F&& body) -> decltype(body()) {
  const c10::impl::ExcludeDispatchKeyGuard below(kAboveMemory);
  try {
    return body();
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  }
  py::throw_pending();
}

// A nested tensor, or one whose class says what it is: all that a graph changes are its parts.
bool has_sizes_of_parts(const c10::TensorImpl& impl) {
  return impl.has_symbolic_sizes_strides() || is_laid_out_in_python(impl);
}

// An optimizer's graph writes hundreds of tensors in each call: their memory serves the next call of the thread.
std::vector<Saved>& spare() {
  static thread_local std::vector<Saved> memory;
  return memory;
}
constexpr std::size_t kMostSpare = 4096;

}  // namespace

struct Checkpoint::Data {
  std::vector<Saved> tensors = std::exchange(spare(), {});
  std::vector<Contents> contents;
  std::vector<GeneratorState> generators;

  Data() = default;
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  ~Data() {
    tensors.clear();  // a finaliser that runs now may make one of its own
    if (tensors.capacity() <= kMostSpare && tensors.capacity() > spare().capacity()) spare() = std::move(tensors);
  }

  void save(const at::Tensor& tensor, Keep keep) {
    if (!tensor.defined() || !tensor.has_storage() || has_sizes_of_parts(*tensor.unsafeGetTensorImpl())) return;
    tensors.emplace_back(tensor, keep);
    if (auto* view = view_meta_of(tensor)) tensors.emplace_back(view->get_backward_view().base_, Keep::State);
    if (keep != Keep::Contents) return;
    const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    for (const Contents& other : contents) {
      if (is_same(other.storage, storage)) return;
    }
    contents.emplace_back(storage);
  }
};

Checkpoint::Checkpoint() : data_(std::make_unique<Data>()) {}
Checkpoint::~Checkpoint() = default;

void Checkpoint::save(PyObject* tensor, Keep keep) {
  in_plain_memory([&] { data_->save(tensor_of(tensor), keep); });
}

void Checkpoint::save_if_view(PyObject* tensor) {
  if (view_meta_of(*impl_of(tensor)) == nullptr) return;
  in_plain_memory([&] { data_->save(tensor_of(tensor), Keep::State); });
}

void Checkpoint::save_generators(bool cuda) {
  in_plain_memory([&] {
    data_->generators.emplace_back(at::detail::getDefaultCPUGenerator());
    if (!cuda || !at::globalContext().hasCUDA()) return;
    const auto& accelerator = at::globalContext().getAcceleratorHooksInterface(c10::kCUDA);
    for (c10::DeviceIndex i = 0; i < accelerator.deviceCount(); ++i) {
      data_->generators.emplace_back(at::globalContext().defaultGenerator(c10::Device(c10::kCUDA, i)));
    }
  });
}

std::int64_t Checkpoint::bytes() const noexcept {
  std::size_t sum = data_->tensors.size() * sizeof(Saved);
  for (const Contents& contents : data_->contents) sum += contents.size;
  for (const GeneratorState& generator : data_->generators) sum += generator.state.nbytes();
  return static_cast<std::int64_t>(sum);
}

bool Checkpoint::restore() {
  return in_plain_memory([&] {
    bool complete = true;
    for (const Saved& saved : data_->tensors) complete &= saved.is_unwritten();
    for (auto saved = data_->tensors.rbegin(); saved != data_->tensors.rend(); ++saved) saved->restore();
    for (Contents& contents : data_->contents) complete &= contents.restore();
    for (GeneratorState& generator : data_->generators) generator.restore();
    return complete;
  });
}

}  // namespace pellucid::aten
