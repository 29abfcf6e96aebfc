// TensorSpec as text: the same facts in the same order.
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include "aten/aten.h"
#include "aten/internal.h"
#include "aten/world.h"

namespace pellucid::aten {

std::string layout_text(PyObject* tensor) {
  const c10::TensorImpl& impl = *impl_of(tensor);
  if (impl.layout() != c10::kStrided || impl.is_nested() || impl.has_symbolic_sizes_strides()) return "";
  if (impl.key_set().has(c10::DispatchKey::Python)) return "";
  std::string text = c10::toString(c10::typeMetaToScalarType(impl.dtype()));
  text.append(" ").append(impl.device().str());
  text.append(" ").append(std::to_string(impl.key_set().raw_repr()));
  text.append(impl.requires_grad() ? " grad" : " plain").append(is_leaf(tensor) ? " leaf" : " inner");
  for (const std::int64_t size : impl.sizes()) text.append(" ").append(std::to_string(size));
  text.append(" /");
  for (const std::int64_t stride : impl.strides()) text.append(" ").append(std::to_string(stride));
  return text;
}

}  // namespace pellucid::aten
