// The only door to torch: everything that touches TensorImpl, the dispatcher or thread-local torch state is compiled in
// this room, and this header names no torch type. Tensors are PyObject* (instances of torch.Tensor).
//
// A fake is a torch.Tensor with sizes, strides, dtype, device, requires_grad and autograd state, but no data. Torch
// functions called on fakes run natively and give fakes; whatever needs data raises an exception that
// FakeScope::is_data_dependent knows.
#pragma once
#include <Python.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "aten/size_scope.h"
#include "py/ref.h"

namespace pellucid::aten {

// Once, at import: registers the fake kernels. Raises PythonError when this torch cannot be supported or another
// library has claimed our dispatch keys.
void initialise();

bool is_tensor(PyObject* object) noexcept;  // an instance of torch.Tensor or of a subclass
enum class Layout : std::uint8_t { Strided, SparseCoo, Other };
Layout layout_kind(PyObject* tensor) noexcept;
bool is_plain_tensor(PyObject* object) noexcept;  // exactly torch.Tensor, nn.Parameter or nn.Buffer: no
                                                  // __torch_function__, no __torch_dispatch__
py::Owned<> scalar_tensor(double number);         // of no dimension, float64, on the CPU; no mode sees it made
bool is_fake(PyObject* object) noexcept;          // one of ours, or a wrapper of torch.func around one

// Which sizes and strides of a tensor a region leaves open; all others are compared with those of the tensor.
struct OpenLayout {
  enum class Stride : std::uint8_t {
    Exact,
    Dense,  // size(inner) * stride(inner) of another dim, both as they are found
    Open,   // any from kLeastOpenStride on
  };
  static constexpr std::int64_t kLeastOpenStride = 2;
  struct Dim {
    bool open = false;                                                        // the size
    std::int64_t least = 2, most = std::numeric_limits<std::int64_t>::max();  // of an open size
    Stride stride = Stride::Exact;
    int inner = -1;  // of Dense
  };
  std::vector<Dim> dims;
};

// Every size and stride of a tensor closed, with `inner` of the dims whose strides the sizes say; no dims when it has
// no plain sizes and strides.
OpenLayout layout_of(PyObject* tensor);

bool is_parameter(PyObject* tensor) noexcept;  // an nn.Parameter

// What a guard compares. Reads TensorImpl directly; no allocation in matches().
class TensorSpec {
 public:
  // `open` has as many dims as the tensor. A tensor without plain sizes and strides never matches, open or not.
  static std::unique_ptr<TensorSpec> of(PyObject* tensor, const OpenLayout* open = nullptr);
  ~TensorSpec();
  bool matches(
      PyObject* object) const noexcept;  // type, dtype, device, layout, requires_grad, keys, conj/neg, sizes, strides
  // Everything that differs: "dtype mismatch, expected f32, actual f64; size mismatch at index 0, expected 2, actual
  // 3";
  // "" when it matches. A stride that differs because a size does is not told.
  std::string mismatch(PyObject* object) const;
  std::string text() const;  // "f32[*, 3] cpu requires_grad=False": the first size is open
  // Whether every tensor that matches this one matches `that` as well, as far as it can be told.
  bool implies(const TensorSpec& that) const noexcept;
  bool has_open() const noexcept;
  PyTypeObject* type() const noexcept;
  // What all tensors that match have there; false: it is open, or there is no such dim.
  bool size_at(std::int64_t dim, std::int64_t* out) const noexcept;
  bool stride_at(std::int64_t dim, std::int64_t* out) const noexcept;

 private:
  TensorSpec();
  struct Data;
  std::unique_ptr<Data> data_;
};

// A size or a stride. False: no tensor that has them as plain numbers of its own, or no such dim (dims do not count
// from the end). Runs no Python code, whatever the object is.
bool size_at(PyObject* object, std::int64_t dim, std::int64_t* out) noexcept;
bool stride_at(PyObject* object, std::int64_t dim, std::int64_t* out) noexcept;

// Whether a function is being transformed here (torch.func.vmap, grad …).
bool in_function_transform() noexcept;
bool in_autocast() noexcept;  // of the CPU
// Whether a torch dispatch mode (a FLOP counter, a tracer …) sees every operator here.
bool in_dispatch_mode() noexcept;
// Whether a torch function mode does, other than default devices.
bool in_function_mode_of_user() noexcept;
bool in_mode_of_user() noexcept;  // one of these
// What autograd calls here for each tensor that it saves (torch.autograd.graph.saved_tensors_hooks), or null. Borrowed.
PyObject* pack_hook() noexcept;
std::size_t saved_tensor_hook_count() noexcept;  // pairs of them, of which that is one

// Thread-local and process-wide torch state that changes what a program computes.
class GlobalState {
 public:
  // The state of this thread as it is now, read when it is first asked for: for many comparisons while no Python code
  // runs.
  class Reading;

  static std::unique_ptr<GlobalState> now();
  ~GlobalState();
  bool matches() const noexcept;
  bool matches(Reading& reading) const noexcept;
  bool equals(const GlobalState& that) const noexcept;
  std::string mismatch() const;  // "grad mode: expected on, found off"; more of the kind behind "; "
  void restore() const;          // puts grad mode, autocast, levels of torch.func … of this thread back to this state
  bool has_open_levels() const noexcept;  // of torch.func, more than there were in this state
 private:
  GlobalState();
  struct Data;
  std::unique_ptr<Data> data_;
};

class GlobalState::Reading {
 private:
  friend class GlobalState;
  static constexpr std::size_t kMost = 24;
  bool is_read_ = false;
  std::uint64_t values_[kMost];
};

// Alive while a region is captured (one per thread at a time).
class FakeScope {
 public:
  explicit FakeScope(std::shared_ptr<SizeScope> sizes = std::make_shared<SizeScope>());
  ~FakeScope();
  FakeScope(const FakeScope&) = delete;
  FakeScope& operator=(const FakeScope&) = delete;

  // The fake twin of a real tensor: same metadata, requires_grad, leafness, Parameter-ness does not matter (type is
  // torch.Tensor). Views of one base become fakes that share one storage object when both are made in this scope.
  // `shape`: with open sizes, expressions of the scope of sizes.
  py::Owned<> fake_of(PyObject* real, const OpenShape* shape = nullptr);

  // The torch.SymInt (SymFloat, SymBool) that says an expression of the scope of sizes to torch, and the expression of
  // such an object, null for anything else.
  py::Owned<> number_of(const symbolic::Expr* expr);
  const symbolic::Expr* expr_of(PyObject* number) const;
  // The layout of a fake with open sizes; empty: it has none.
  OpenShape open_shape(PyObject* fake) const;
  // Whether a fake still has this layout.
  bool has_shape(PyObject* fake, const OpenShape& shape) const;

  // Calls `callable` with fakes among its arguments (already replaced). Installs the thread-local state that makes
  // factories give fakes, hides user modes, saved-tensor hooks and the profiler, and removes all of it again. A Python
  // exception of the call is a PythonError. Those of the fakes (no fake kernel, a write of a fake into a real tensor, a
  // layout without fakes) begin with "pellucid: "; is_data_dependent() tells those that need data. `listener`: a torch
  // function mode that sees what is called.
  py::Owned<> call(PyObject* callable, PyObject* const* args, std::size_t nargs, PyObject* kwnames,
                   PyObject* listener = nullptr);
  // The same, and classes with a `__torch_dispatch__` are asked for theirs.
  py::Owned<> call_classes(PyObject* callable, PyObject* const* args, std::size_t nargs, PyObject* kwnames);

  static bool is_data_dependent(PyObject* exception);  // the exception says "this needs the values of a tensor"

 private:
  struct Data;
  py::Owned<> call_here(PyObject* callable, PyObject* const* args, std::size_t nargs, PyObject* kwnames);
  std::unique_ptr<Data> data_;
};

// The identity of a storage, which stays its own for as long as somebody has this: an address may be used again.
using HeldStorage = std::shared_ptr<const void>;

// What the operators that ran on fakes since the last call of take_facts() will do on real tensors.
struct OpFacts {
  bool may_raise = false;  // on values
  bool random = false;
  bool overwrites = false;        // all that it does is to write, without reading what it writes
  bool only_as_captured = false;  // compilers know nothing of it, or take it for something else
  std::vector<HeldStorage> written;
};
const OpFacts& facts_so_far() noexcept;
OpFacts take_facts();

// How much of a tensor a Checkpoint keeps.
enum class Keep : std::uint8_t {
  Untraced,  // only metadata and autograd state; whether it was written cannot be told
  Version,   // the same, and whether it was written
  State,     // the same; the next run writes its contents again before anybody reads them
  Contents,
};

// A range that torch's profiler shows, as long as it is alive.
class ProfilerRange {
 public:
  static std::unique_ptr<ProfilerRange> if_asked_for();  // null: no profiler listens
  ~ProfilerRange();
  void begin(const std::string& name);
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  struct Range;
  explicit ProfilerRange(std::unique_ptr<Range> range);
  std::unique_ptr<Range> range_;
};

// The state of some tensors (and generators) before a graph runs, to go back to when it raises half-way.
class Checkpoint {
 public:
  Checkpoint();
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  void save(PyObject* tensor, Keep keep);
  void save_if_view(PyObject* tensor);  // a write through another view of its base would change its autograd state
  void save_generators(bool cuda);
  std::int64_t bytes() const noexcept;  // of what is kept
  // Everything as it was; false: a tensor was written whose contents are not here.
  bool restore();

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

// Makes an otherwise free-standing fake with the metadata of `like` (a real tensor that a constructor such as
// torch.tensor(list) made during capture).
py::Owned<> fake_like(PyObject* like);

// Metadata used by capture and the hand-off, for real tensors and fakes.
struct Meta {
  std::vector<std::int64_t> sizes, strides;
  std::int64_t storage_offset = 0;
  bool requires_grad = false, is_leaf = true;
  std::uint32_t version = 0;      // version counter: an op that bumped it has mutated the tensor
  const void* storage = nullptr;  // identity of the storage; of a wrapper that of the tensor which it is around
};
Meta meta_of(PyObject* tensor);
// Of a wrapper with those that it is around: a write to one of these is a write to it.
std::uint32_t version_of(PyObject* tensor) noexcept;
bool is_float_with_dimensions(PyObject* tensor) noexcept;  // of a real floating dtype, not of dimension 0
bool is_full_float(PyObject* tensor) noexcept;             // of float32 or float64
bool is_leaf_with_grad(PyObject* tensor) noexcept;         // requires gradients, and they are accumulated in it

// Op name -> how often a fake kernel had no native rule and used the Python meta function, since the last reset.
std::vector<std::pair<std::string, std::int64_t>> ops_without_rule();
// The same of operators whose open sizes became constants because no size rule covers the case.
std::vector<std::pair<std::string, std::int64_t>> ops_without_size_rule();
void reset_ops_without_rule();  // both

// Storages of fakes that are alive in this process: 0 when nothing leaks.
std::int64_t live_fakes() noexcept;

}  // namespace pellucid::aten
