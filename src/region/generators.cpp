#include "region/generators.h"

#include "region/region.h"

namespace pellucid::region {

PyObject* Generators::twin_of(PyObject* generator) const {
  const auto found = twins_.find(generator);
  return found == twins_.end() ? nullptr : found->second.get();
}

PyObject* Generators::note_twin(PyObject* generator, py::Owned<> twin) {
  region_.shadows.note_stand_in(twin.get(), generator);
  order_.push_back(generator);
  return twins_.emplace(generator, std::move(twin)).first->second.get();
}

void Generators::changes(std::vector<Effect>& out) const {
  for (PyObject* generator : order_) {
    Effect effect;
    effect.kind = Effect::Kind::SetGenerator;
    effect.target = py::Owned<>::share(generator);
    effect.value = twins_.at(generator).copy();
    out.push_back(std::move(effect));
  }
}

}  // namespace pellucid::region
