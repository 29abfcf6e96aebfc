// Generators made by the region: suspended frames that any frame may resume.
#include "frames/generators.h"

#include <algorithm>

#include "bytecode/opcodes.h"
#include "region/snapshot.h"
#include "trace/executor.h"

namespace pellucid::trace {

using K = Continuation::Kind;
using region::TracedGenerator;

Next Executor::return_generator(Frame& frame) {
  // The frame that just began becomes the generator's body; its caller gets the generator.
  if (!frame.back) throw GraphBreak(Reason::GeneratorEntry);
  auto body = pop_frame();
  Continuation then = std::exchange(body->then, {});
  Frame* raw = body.get();
  auto generator = region::new_generator(std::move(body));
  raw->generator = reinterpret_cast<TracedGenerator*>(generator.get());
  raw->generator->is_polyfill = raw->hidden;
  raw->generator->function = raw->function.copy().release();
  return deliver(and_then(Result::of(std::move(generator)), std::move(then)));
}

// A builtin iterator may be advanced while it is being advanced; a generator that stands for one may not.
Result Executor::already_executing(const TracedGenerator& generator) {
  if (generator.is_polyfill)
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
  if (generator->is_twin) ++region.outside_writes;
  frame->stack.push_back(py::Owned<>::share(value));
  frame->generator_ref = py::Owned<>::share(object);
  push_frame(std::move(frame));
  return Result::pushed(top_.get());
}

PyObject* Executor::twin_of_generator(PyObject* generator) {
  if (PyObject* twin = region.generators.twin_of(generator)) return twin;
  const source::Source* source = region.provenance.source_of(generator);
  if (source == nullptr || !frames::is_readable_generator(generator)) return nullptr;
  region.provenance.guard(region::Kind::GENERATOR_AT, source, frames::place_of_generator(generator));
  auto twin = region::new_generator(nullptr);
  auto* raw = reinterpret_cast<TracedGenerator*>(twin.get());
  raw->started = raw->is_twin = true;
  if (!frames::has_ended(generator)) {
    const frames::GeneratorState state = frames::state_of_generator(generator);
    auto frame = new_frame(state.function, state.code);
    for (std::size_t i = 0; i < state.values.size(); ++i) {
      auto value = py::Owned<>::share(state.values[i]);
      if (value)
        region.provenance.note_read(value.get(), region.capture->sources.part(source, static_cast<std::int64_t>(i)));
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
    raw->is_polyfill = frame->hidden;
    raw->frame = frame.release();
  }
  return region.generators.note_twin(generator, std::move(twin));
}

void Executor::run_twin(py::Owned<> generator) {
  auto twin = region::new_generator(nullptr);
  auto* raw = reinterpret_cast<TracedGenerator*>(twin.get());
  raw->started = raw->running = raw->is_twin = true;
  raw->is_polyfill = top_->hidden;
  top_->generator = raw;
  top_->generator_ref = twin.copy();
  region.generators.note_twin(generator.get(), std::move(twin));
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
  if (generator->frame == nullptr || (!generator->started && generator->is_polyfill)) {
    delete std::exchange(generator->frame, nullptr);
    exception = std::move(instance);
    unwinder.leave_unchained();
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
  return and_then(throw_into(object, unwinder.generator_exit()), Continuation(K::Close));
}

Next Executor::yield_value(Frame& frame) {
  auto value = pop(frame);
  auto body = pop_frame();
  Continuation then = std::exchange(body->then, {});
  TracedGenerator* generator = body->generator;
  auto keep_alive = std::move(body->generator_ref);
  generator->running = false;
  generator->in_block = handler_of(*body) != nullptr;
  if (body->frame_object) region.capture->open_frame_objects.insert(body->frame_object.get());
  generator->frame = body.release();
  return deliver(and_then(Result::of(std::move(value)), std::move(then)));
}

}  // namespace pellucid::trace
