// Generators made by the region: suspended frames that any frame may resume.
#include "frames/generators.h"

#include <algorithm>

#include "bytecode/opcodes.h"
#include "objects/snapshot.h"
#include "trace/executor.h"

namespace pellucid::trace {

using K = Continuation::Kind;
using objects::TracedGenerator;

Next Executor::return_generator(Frame& frame) {
  // The frame that just began becomes the generator's body; its caller gets the generator.
  if (!frame.back) throw GraphBreak(Reason::GeneratorEntry);
  auto body = pop_frame();
  Continuation then = std::exchange(body->then, {});
  Frame* raw = body.get();
  auto generator = objects::new_generator(std::move(body));
  raw->generator = reinterpret_cast<TracedGenerator*>(generator.get());
  raw->generator->is_ours = raw->hidden;
  raw->generator->function = raw->function.copy().release();
  return deliver(and_then(Result::of(std::move(generator)), std::move(then)));
}

// A builtin iterator may be advanced while it is being advanced; a generator that stands for one may not.
Result Executor::already_executing(const TracedGenerator& generator) {
  if (generator.is_ours)
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__next__ within __next__"}, {"type", "builtin iterator"}});
  return raise(PyExc_ValueError, "generator already executing");
}

Result Executor::resume(PyObject* object, PyObject* value) {
  auto* generator = reinterpret_cast<TracedGenerator*>(object);
  if (generator->running) return already_executing(*generator);
  if (generator->frame == nullptr) {
    exception = py::take(PyObject_CallNoArgs(PyExc_StopIteration));
    return Result::raised();
  }
  if (!generator->started && value != Py_None) {
    return raise(PyExc_TypeError, "can't send non-None value to a just-started generator");
  }
  std::unique_ptr<Frame> frame(std::exchange(generator->frame, nullptr));
  generator->running = generator->started = true;
  frame->stack.push_back(py::Owned<>::share(value));
  frame->generator_ref = py::Owned<>::share(object);
  push_frame(std::move(frame));
  return Result::pushed(top_.get());
}

PyObject* Executor::twin_of_generator(PyObject* generator) {
  if (const auto found = generators_.find(generator); found != generators_.end()) return found->second.get();
  const source::Source* source = source_of(generator);
  if (source == nullptr || !frames::is_readable_generator(generator)) return nullptr;
  guard(objects::Kind::GENERATOR_AT, source, frames::place_of_generator(generator));
  auto twin = objects::new_generator(nullptr);
  auto* raw = reinterpret_cast<TracedGenerator*>(twin.get());
  raw->started = raw->is_twin = true;
  if (!frames::has_ended(generator)) {
    const frames::GeneratorState state = frames::state_of_generator(generator);
    auto frame = new_frame(state.function, state.code);
    for (std::size_t i = 0; i < state.values.size(); ++i) {
      auto value = py::Owned<>::share(state.values[i]);
      if (value) saw(value.get(), capture().sources.part(source, static_cast<std::int64_t>(i)));
      if (i < frame->fast.size()) {
        frame->fast[i] = std::move(value);
      } else {
        frame->stack.push_back(std::move(value));
      }
    }
    frame->next = state.next;
    frame->at = std::max(state.next - 2, 0);  // the YIELD_VALUE, which has no cache entries
    frame->generator = raw;
    raw->started = state.started;
    raw->is_ours = frame->hidden;
    raw->frame = frame.release();
  }
  shadowed_by_.emplace(twin.get(), generator);
  order_of_generators_.push_back(generator);
  return generators_.emplace(generator, std::move(twin)).first->second.get();
}

PyObject* Executor::known_twin(PyObject* generator) const {
  const auto found = generators_.find(generator);
  return found == generators_.end() ? nullptr : found->second.get();
}

// What a suspended frame holds goes with it: an inner generator of a `yield from`, say.
template <class Values>
bool Executor::would_run_with(PyCodeObject* code, int at, const Values& values, int depth) {
  const bytecode::DecodedCode& instructions = decoded(code);
  if (instructions.handler_of(instructions.index_at(at)) != nullptr) return true;
  return std::ranges::any_of(values, [&](const auto& value) {
    return static_cast<bool>(value) && would_run_when_lost(value.get(), depth + 1);
  });
}

bool Executor::would_run_when_lost(PyObject* value, int depth) {
  constexpr int kDeepest = 3, kDeepestGenerator = 20;
  if (kept_.contains(value) || depth > kDeepestGenerator) return false;
  const auto any = [&](const std::vector<py::Owned<>>& items) {
    return std::ranges::any_of(items, [&](const auto& item) { return would_run_when_lost(item.get(), depth + 1); });
  };
  const auto any_in_frame = [&](const Frame& frame) {
    return would_run_with(frame.code.get(), frame.at, frame.fast, depth) ||
           would_run_with(frame.code.get(), frame.at, frame.stack, depth);
  };
  if (objects::is_generator(value)) {
    const auto* made = reinterpret_cast<const TracedGenerator*>(value);
    return made->frame != nullptr && made->started && any_in_frame(*made->frame);
  }
  if (depth > kDeepest && !PyGen_CheckExact(value)) return false;
  if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) return any(objects::items_now(value));
  if (PyDict_CheckExact(value)) {
    return std::ranges::any_of(objects::entries_now(value),
                               [&](const auto& entry) { return would_run_when_lost(entry.second.get(), depth + 1); });
  }
  if (!PyGen_CheckExact(value) || frames::is_running(value) || frames::has_ended(value)) return false;
  if (PyObject* twin = known_twin(value)) return would_run_when_lost(twin, depth);
  const frames::GeneratorState state = frames::state_of_generator(value);
  if (!state.started) return false;
  std::vector<py::Owned<>> values;
  for (PyObject* held : state.values) values.push_back(py::Owned<>::share(held));
  return would_run_with(state.code, std::max(state.next - 2, 0), values, depth);
}

void Executor::refuse_lost(PyObject* result, const std::vector<PyObject*>& taken) {
  const bool was_torn = std::exchange(torn_, true);  // the frames are as they are at the end
  const auto refuse = [&] { unsupported(Reason::Finalizer, {{"type", "generator inside a block"}}); };
  kept_.insert(result);
  if (PyTuple_CheckExact(result)) {
    for (const auto& item : objects::items_now(result)) kept_.insert(item.get());
  }
  for (PyObject* value : taken) {
    if (would_run_when_lost(value)) refuse();
  }
  const auto stays = [&](PyObject* value) {  // the frame that returns lets go of its variables at the end
    return kept_.contains(value) || (!top_->back && std::ranges::any_of(top_->fast, [&](const auto& variable) {
             return variable.get() == value;
           }));
  };
  for (const TakenOver& each : taken_over_) {
    if (stays(each.value)) continue;
    const bool run = std::ranges::any_of(each.generators, [&](PyObject* one) { return would_run_when_lost(one); });
    if (run) refuse();
    lost(each);
  }
  for (PyObject* object : order_of_shadows_) {
    const auto shadow = shadows_.find(object);
    if (shadow == shadows_.end() || !shadow->second.changed) continue;
    PyObject* now = shadow->second.object.get();
    std::vector<py::Owned<>> before;
    if (PyList_CheckExact(object) && PyList_CheckExact(now)) {
      for (const auto& item : objects::items_now(now)) kept_.insert(item.get());
      before = objects::items_now(object);
    } else if (PyDict_CheckExact(object) && PyDict_CheckExact(now)) {
      for (const auto& [key, item] : objects::entries_now(now)) kept_.insert(item.get());
      for (auto& [key, item] : objects::entries_now(object)) before.push_back(std::move(item));
    }
    if (std::ranges::any_of(before, [&](const auto& item) { return would_run_when_lost(item.get()); })) refuse();
  }
  torn_ = was_torn;
}

void Executor::run_twin(py::Owned<> generator) {
  auto twin = objects::new_generator(nullptr);
  auto* raw = reinterpret_cast<TracedGenerator*>(twin.get());
  raw->started = raw->running = raw->is_twin = true;
  raw->is_ours = top_->hidden;
  top_->generator = raw;
  top_->generator_ref = twin.copy();
  shadowed_by_.emplace(twin.get(), generator.get());
  order_of_generators_.push_back(generator.get());
  generators_.emplace(generator.get(), std::move(twin));
}

bool is_ours(PyObject* object) {
  return objects::is_generator(object) && reinterpret_cast<TracedGenerator*>(object)->is_ours;
}

bool delegates(const Frame& body) {
  const int index = body.decoded->index_at(body.next);
  if (index < 0) return false;
  const bytecode::Instruction& next = (*body.decoded)[index];
  return next.op == bytecode::Opcode::RESUME && (next.arg & 3) >= 2;
}

Result Executor::throw_into(PyObject* object, py::Owned<> instance) {
  auto* generator = reinterpret_cast<TracedGenerator*>(object);
  if (generator->running) return already_executing(*generator);
  if (generator->frame == nullptr || (!generator->started && generator->is_ours)) {
    delete std::exchange(generator->frame, nullptr);
    exception = std::move(instance);
    unchained_ = true;
    return Result::raised();
  }
  // One that did not start ends at the RETURN_GENERATOR that it stands at.
  if (generator->started && delegates(*generator->frame)) return throw_through(object, std::move(instance));
  std::unique_ptr<Frame> frame(std::exchange(generator->frame, nullptr));
  generator->running = generator->started = true;
  frame->generator_ref = py::Owned<>::share(object);
  frame->stack.push_back(py::Owned<>::share(Py_None));
  push_frame(std::move(frame));
  thrown_ = std::move(instance);  // the loop raises it at the YIELD_VALUE, which is what runs in that frame
  return Result::pushed(top_.get());
}

Result Executor::close(PyObject* object) {
  auto* generator = reinterpret_cast<TracedGenerator*>(object);
  if (generator->running) return already_executing(*generator);
  if (generator->frame == nullptr || !generator->started) {
    delete std::exchange(generator->frame, nullptr);
    return Result::none();
  }
  if (!delegates(*generator->frame) && handler_of(*generator->frame) == nullptr) {
    delete std::exchange(generator->frame, nullptr);
    return Result::none();
  }
  return and_then(throw_into(object, generator_exit()), Continuation(K::Close));
}

Next Executor::yield_value(Frame& frame) {
  auto value = pop(frame);
  auto body = pop_frame();
  Continuation then = std::exchange(body->then, {});
  TracedGenerator* generator = body->generator;
  auto keep_alive = std::move(body->generator_ref);
  generator->running = false;
  generator->in_block = handler_of(*body) != nullptr;
  if (body->frame_object) capture().open_frame_objects.insert(body->frame_object.get());
  generator->frame = body.release();
  return deliver(and_then(Result::of(std::move(value)), std::move(then)));
}

}  // namespace pellucid::trace
