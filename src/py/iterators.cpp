#include "py/iterators.h"

#include <memory>
#include <unordered_map>

namespace pellucid::py {
namespace {

// The layouts of Objects/*object.c, Python/bltinmodule.c and Modules/*module.c of CPython 3.11; no header has them.
struct SequenceIterator {  // list_iterator, list_reverseiterator, tuple_iterator, str_iterator, bytes_iterator
  PyObject_HEAD Py_ssize_t index;
  PyObject* sequence;
};
struct RangeIterator {
  PyObject_HEAD long index, start, step, length;
};
struct LongRangeIterator {
  PyObject_HEAD PyObject *index, *start, *step, *length;
};
struct DictIterator {
  PyObject_HEAD PyObject* dict;
  Py_ssize_t used, position;
  PyObject* result;
  Py_ssize_t left;
};
struct SetIterator {
  PyObject_HEAD PyObject* set;
  Py_ssize_t used, position, left;
};
struct Deque {
  PyObject_VAR_HEAD void *left_block, *right_block;
  Py_ssize_t left_index, right_index;
  std::size_t state;
};
struct DequeIterator {
  PyObject_HEAD void* block;
  Py_ssize_t index;
  PyObject* deque;
  std::size_t state;
  Py_ssize_t left;
};
struct CountIterator {
  PyObject_HEAD Py_ssize_t count;
  PyObject *long_count, *long_step;
};
struct EnumerateIterator {
  PyObject_HEAD Py_ssize_t index;
  PyObject *iterator, *result, *long_index;
};
struct ZipIterator {
  PyObject_HEAD Py_ssize_t size;
  PyObject *iterators, *result;
  int strict;
};
struct MapIterator {
  PyObject_HEAD PyObject *iterators, *function;
};
struct FilterIterator {
  PyObject_HEAD PyObject *function, *iterator;
};

template <class T>
T* as(PyObject* iterator) noexcept {
  return reinterpret_cast<T*>(iterator);
}

struct Known {
  std::unordered_map<PyTypeObject*, IteratorKind> kinds;
  PyTypeObject* deque = nullptr;
};
const Known* known = nullptr;

PyTypeObject* imported_type(const char* module, const char* name) {
  return reinterpret_cast<PyTypeObject*>(import_attr(module, name).release());  // lives as long as the interpreter
}

PyObject* kept(PyObject* made, Owned<>& fresh) noexcept {
  fresh = Owned<>::steal(made);
  if (!fresh) PyErr_Clear();
  return fresh.get();
}

// ---- sequences

Py_ssize_t size_of(IteratorKind kind, PyObject* sequence) noexcept {
  return kind == IteratorKind::Text ? PyUnicode_GET_LENGTH(sequence) : Py_SIZE(sequence);
}

std::int64_t sequence_left(IteratorKind kind, PyObject* iterator) noexcept {
  const auto* it = as<SequenceIterator>(iterator);
  if (it->sequence == nullptr || it->index < 0) return 0;
  const Py_ssize_t size = size_of(kind, it->sequence);
  if (kind == IteratorKind::ListReverse) return it->index < size ? it->index + 1 : 0;
  return it->index < size ? size - it->index : 0;
}

PyObject* sequence_ahead(IteratorKind kind, PyObject* iterator, std::int64_t ahead, Owned<>& fresh) noexcept {
  if (ahead >= sequence_left(kind, iterator)) return nullptr;
  const auto* it = as<SequenceIterator>(iterator);
  const auto at = static_cast<Py_ssize_t>(it->index + (kind == IteratorKind::ListReverse ? -ahead : ahead));
  switch (kind) {
    case IteratorKind::Tuple:
      return PyTuple_GET_ITEM(it->sequence, at);
    case IteratorKind::Text: {
      const Py_UCS4 letter = PyUnicode_READ_CHAR(it->sequence, at);
      return kept(PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, &letter, 1), fresh);
    }
    case IteratorKind::Bytes:
      return kept(PyLong_FromLong(static_cast<unsigned char>(PyBytes_AS_STRING(it->sequence)[at])), fresh);
    default:
      return PyList_GET_ITEM(it->sequence, at);
  }
}

// ---- numbers

std::int64_t long_range_left(PyObject* iterator, std::int64_t most) noexcept {
  const auto* it = as<LongRangeIterator>(iterator);
  auto left = Owned<>::steal(PyNumber_Subtract(it->length, it->index));
  int overflow = 0;
  const long long number = left ? PyLong_AsLongLongAndOverflow(left.get(), &overflow) : -1;
  if (!left) PyErr_Clear();
  return overflow > 0 || number > most ? most : number;
}

// start + (index + ahead) * step
PyObject* long_range_ahead(PyObject* iterator, std::int64_t ahead, Owned<>& fresh) noexcept {
  const auto* it = as<LongRangeIterator>(iterator);
  if (long_range_left(iterator, ahead + 1) <= ahead) return nullptr;
  auto offset = Owned<>::steal(PyLong_FromLongLong(ahead));
  auto index = Owned<>::steal(offset ? PyNumber_Add(it->index, offset.get()) : nullptr);
  auto distance = Owned<>::steal(index ? PyNumber_Multiply(index.get(), it->step) : nullptr);
  return kept(distance ? PyNumber_Add(it->start, distance.get()) : nullptr, fresh);
}

PyObject* count_ahead(PyObject* iterator, std::int64_t ahead, Owned<>& fresh) noexcept {
  const auto* it = as<CountIterator>(iterator);
  if (it->long_count != nullptr && (!PyLong_CheckExact(it->long_count) || !PyLong_CheckExact(it->long_step)))
    return nullptr;
  auto start =
      it->long_count != nullptr ? Owned<>::share(it->long_count) : Owned<>::steal(PyLong_FromSsize_t(it->count));
  auto offset = Owned<>::steal(PyLong_FromLongLong(ahead));
  if (it->long_count != nullptr && offset) offset = Owned<>::steal(PyNumber_Multiply(offset.get(), it->long_step));
  return kept(start && offset ? PyNumber_Add(start.get(), offset.get()) : nullptr, fresh);
}

// ---- tables: walked from the iterator's position, as it will do itself

bool table_changed(IteratorKind kind, PyObject* iterator) noexcept {
  if (kind == IteratorKind::Set)
    return as<SetIterator>(iterator)->used != PySet_GET_SIZE(as<SetIterator>(iterator)->set);
  const auto* it = as<DictIterator>(iterator);
  return it->used != reinterpret_cast<PyDictObject*>(it->dict)->ma_used;
}

PyObject* table_of(IteratorKind kind, PyObject* iterator) noexcept {
  return kind == IteratorKind::Set ? as<SetIterator>(iterator)->set : as<DictIterator>(iterator)->dict;
}

// Visits the entries ahead until visit(key, value) says no.
template <class F>
void walk_table(IteratorKind kind, PyObject* iterator, Py_ssize_t position, F&& visit) noexcept {
  PyObject *key = nullptr, *value = nullptr;
  if (kind == IteratorKind::Set) {
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(as<SetIterator>(iterator)->set, &position, &key, &hash) != 0 && visit(key, nullptr)) {
    }
    return;
  }
  while (PyDict_Next(as<DictIterator>(iterator)->dict, &position, &key, &value) != 0 && visit(key, value)) {
  }
}

std::int64_t table_left(IteratorKind kind, PyObject* iterator, std::int64_t most) noexcept {
  if (table_of(kind, iterator) == nullptr) return 0;
  if (table_changed(kind, iterator)) return -1;
  const bool is_set = kind == IteratorKind::Set;
  const Py_ssize_t position = is_set ? as<SetIterator>(iterator)->position : as<DictIterator>(iterator)->position;
  const Py_ssize_t expected = is_set ? PY_SSIZE_T_MAX : as<DictIterator>(iterator)->left;
  std::int64_t found = 0;
  walk_table(kind, iterator, position, [&](PyObject*, PyObject*) { return ++found < most; });
  return found > expected ? -1 : found;  // "dictionary keys changed during iteration"
}

PyObject* table_ahead(IteratorKind kind, PyObject* iterator, std::int64_t ahead, bool value) noexcept {
  if (table_left(kind, iterator, ahead + 1) <= ahead) return nullptr;
  const Py_ssize_t position =
      kind == IteratorKind::Set ? as<SetIterator>(iterator)->position : as<DictIterator>(iterator)->position;
  PyObject* found = nullptr;
  walk_table(kind, iterator, position, [&](PyObject* key, PyObject* entry) {
    found = kind == IteratorKind::DictValues || value ? entry : key;
    return ahead-- > 0;
  });
  return found;
}

// ---- deques

std::int64_t deque_left(PyObject* iterator) noexcept {
  const auto* it = as<DequeIterator>(iterator);
  return it->state == as<Deque>(it->deque)->state ? it->left : -1;
}

PyObject* deque_ahead(PyObject* iterator, std::int64_t ahead, Owned<>& fresh) noexcept {
  if (ahead >= deque_left(iterator)) return nullptr;
  const auto* it = as<DequeIterator>(iterator);
  const auto at = Py_SIZE(it->deque) - it->left + static_cast<Py_ssize_t>(ahead);
  return kept(known->deque->tp_as_sequence->sq_item(it->deque, at), fresh);
}

PyObject* item_of(PyObject* tuple, std::int64_t index) noexcept {
  return tuple != nullptr && index >= 0 && index < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, index) : nullptr;
}

}  // namespace

void initialise_iterators() {
  if (known != nullptr) return;
  auto made = std::make_unique<Known>();
  made->deque = imported_type("collections", "deque");
  const auto ascii = take(PyObject_GetIter(str("a").get()));  // str_ascii_iterator is not exported
  made->kinds = {
      {&PyListIter_Type, IteratorKind::List},
      {&PyListRevIter_Type, IteratorKind::ListReverse},
      {&PyTupleIter_Type, IteratorKind::Tuple},
      {&PyUnicodeIter_Type, IteratorKind::Text},
      {Py_TYPE(ascii.get()), IteratorKind::Text},
      {&PyBytesIter_Type, IteratorKind::Bytes},
      {&PyRangeIter_Type, IteratorKind::Range},
      {&PyLongRangeIter_Type, IteratorKind::LongRange},
      {&PyDictIterKey_Type, IteratorKind::DictKeys},
      {&PyDictIterValue_Type, IteratorKind::DictValues},
      {&PyDictIterItem_Type, IteratorKind::DictItems},
      {&PySetIter_Type, IteratorKind::Set},
      {imported_type("_collections", "_deque_iterator"), IteratorKind::Deque},
      {imported_type("itertools", "count"), IteratorKind::Count},
      {&PyEnum_Type, IteratorKind::Enumerate},
      {&PyZip_Type, IteratorKind::Zip},
      {&PyMap_Type, IteratorKind::Map},
      {&PyFilter_Type, IteratorKind::Filter},
  };
  if (known == nullptr) known = made.release();  // imports let other threads run
}

std::size_t deque_changes(PyObject* deque) noexcept { return as<Deque>(deque)->state; }

IteratorKind iterator_kind(PyTypeObject* type) noexcept {
  if (known == nullptr) return IteratorKind::Unknown;
  const auto found = known->kinds.find(type);
  return found == known->kinds.end() ? IteratorKind::Unknown : found->second;
}

PyObject* dict_walked_by(PyObject* view) noexcept {
  const bool is_view = PyDictViewSet_Check(view) || PyDictValues_Check(view);
  return is_view ? reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(view)->dv_dict) : nullptr;
}

PyObject* dict_of_view(PyObject* view) noexcept {
  const bool is_plain =
      Py_IS_TYPE(view, &PyDictKeys_Type) || Py_IS_TYPE(view, &PyDictValues_Type) || Py_IS_TYPE(view, &PyDictItems_Type);
  return is_plain ? dict_walked_by(view) : nullptr;
}

PyObject* iterator_part(PyObject* iterator, std::int64_t index, Owned<>& fresh) noexcept {
  if (PyObject* dict = dict_of_view(iterator)) return index == 0 ? dict : nullptr;
  const IteratorKind kind = iterator_kind(iterator);
  switch (kind) {
    case IteratorKind::List:
    case IteratorKind::ListReverse:
      return index == 0 ? as<SequenceIterator>(iterator)->sequence : nullptr;
    case IteratorKind::DictKeys:
    case IteratorKind::DictValues:
    case IteratorKind::DictItems:
    case IteratorKind::Set:
      return index == 0 ? table_of(kind, iterator) : nullptr;
    case IteratorKind::Deque:
      return index == 0 ? as<DequeIterator>(iterator)->deque : nullptr;
    case IteratorKind::Enumerate: {
      const auto* it = as<EnumerateIterator>(iterator);
      if (index == 0) return it->iterator;
      if (index != 1) return nullptr;
      return it->long_index != nullptr ? it->long_index : kept(PyLong_FromSsize_t(it->index), fresh);
    }
    case IteratorKind::Zip:
      return item_of(as<ZipIterator>(iterator)->iterators, index);
    case IteratorKind::Map:
      return index == 0 ? as<MapIterator>(iterator)->function
                        : item_of(as<MapIterator>(iterator)->iterators, index - 1);
    case IteratorKind::Filter:
      return index == 0   ? as<FilterIterator>(iterator)->function
             : index == 1 ? as<FilterIterator>(iterator)->iterator
                          : nullptr;
    default:
      return nullptr;
  }
}

std::int64_t iterator_shape(PyObject* iterator) noexcept {
  switch (iterator_kind(iterator)) {
    case IteratorKind::Zip: {
      const auto* it = as<ZipIterator>(iterator);
      return it->strict != 0 ? -it->size - 1 : it->size;
    }
    case IteratorKind::Map:
      return PyTuple_GET_SIZE(as<MapIterator>(iterator)->iterators) + 1;
    case IteratorKind::Filter:
      return 2;
    case IteratorKind::Enumerate:
      return as<EnumerateIterator>(iterator)->long_index == nullptr ? 2 : 3;
    default:
      return 0;
  }
}

PyObject* iterator_ahead(PyObject* iterator, std::int64_t ahead, bool value, Owned<>& fresh) noexcept {
  const IteratorKind kind = iterator_kind(iterator);
  switch (kind) {
    case IteratorKind::List:
    case IteratorKind::ListReverse:
    case IteratorKind::Tuple:
    case IteratorKind::Text:
    case IteratorKind::Bytes:
      return sequence_ahead(kind, iterator, ahead, fresh);
    case IteratorKind::Range: {
      const auto* it = as<RangeIterator>(iterator);
      if (ahead >= it->length - it->index) return nullptr;
      return kept(PyLong_FromLong(it->start + (it->index + static_cast<long>(ahead)) * it->step), fresh);
    }
    case IteratorKind::LongRange:
      return long_range_ahead(iterator, ahead, fresh);
    case IteratorKind::Count:
      return count_ahead(iterator, ahead, fresh);
    case IteratorKind::DictKeys:
    case IteratorKind::DictValues:
    case IteratorKind::DictItems:
    case IteratorKind::Set:
      return table_ahead(kind, iterator, ahead, value);
    case IteratorKind::Deque:
      return deque_ahead(iterator, ahead, fresh);
    default:
      return nullptr;
  }
}

std::int64_t iterator_left(PyObject* iterator, std::int64_t most) noexcept {
  const IteratorKind kind = iterator_kind(iterator);
  std::int64_t left = -1;
  switch (kind) {
    case IteratorKind::List:
    case IteratorKind::ListReverse:
    case IteratorKind::Tuple:
    case IteratorKind::Text:
    case IteratorKind::Bytes:
      left = sequence_left(kind, iterator);
      break;
    case IteratorKind::Range:
      left = as<RangeIterator>(iterator)->length - as<RangeIterator>(iterator)->index;
      break;
    case IteratorKind::LongRange:
      return long_range_left(iterator, most);
    case IteratorKind::Count: {
      Owned<> fresh;
      left = count_ahead(iterator, 0, fresh) == nullptr ? -1 : most;
      break;
    }
    case IteratorKind::DictKeys:
    case IteratorKind::DictValues:
    case IteratorKind::DictItems:
    case IteratorKind::Set:
      return table_left(kind, iterator, most);
    case IteratorKind::Deque:
      left = deque_left(iterator);
      break;
    default:
      break;
  }
  return left < most ? left : most;
}

std::int64_t iterator_position(PyObject* iterator) noexcept {
  if (iterator_kind(iterator) != IteratorKind::List) return -1;
  const auto* it = as<SequenceIterator>(iterator);
  return it->sequence == nullptr ? -1 : it->index;
}

std::int64_t iterator_taken(PyObject* iterator) noexcept {
  const IteratorKind kind = iterator_kind(iterator);
  if (kind < IteratorKind::DictKeys || kind > IteratorKind::Set || table_of(kind, iterator) == nullptr) return -1;
  if (table_changed(kind, iterator)) return -1;
  const Py_ssize_t size =
      kind == IteratorKind::Set ? as<SetIterator>(iterator)->used : as<DictIterator>(iterator)->used;
  const std::int64_t left = table_left(kind, iterator, PY_SSIZE_T_MAX);
  const Py_ssize_t expected =
      kind == IteratorKind::Set ? as<SetIterator>(iterator)->left : as<DictIterator>(iterator)->left;
  return left == expected ? size - left : -1;
}

void rewind_iterator(PyObject* iterator) noexcept {
  if (iterator_kind(iterator) == IteratorKind::Set) {
    auto* it = as<SetIterator>(iterator);
    it->used = it->left = PySet_GET_SIZE(it->set);
    it->position = 0;
    return;
  }
  auto* it = as<DictIterator>(iterator);
  it->used = it->left = reinterpret_cast<PyDictObject*>(it->dict)->ma_used;
  it->position = 0;
}

namespace {

bool advance_enumerate(PyObject* iterator, std::int64_t count) noexcept {
  auto* it = as<EnumerateIterator>(iterator);
  if (it->long_index == nullptr && it->index <= PY_SSIZE_T_MAX - 1 - count) {
    it->index += static_cast<Py_ssize_t>(count);
    return true;
  }
  PyErr_SetString(PyExc_RuntimeError, "pellucid: an enumerate that counts beyond sys.maxsize");
  return false;
}

bool advance_by_next(PyObject* iterator, std::int64_t count, bool ends) noexcept {
  const iternextfunc next = Py_TYPE(iterator)->tp_iternext;
  for (std::int64_t i = 0; i < count + (ends ? 1 : 0); ++i) {
    const auto item = Owned<>::steal(next(iterator));
    if (item || i == count) continue;
    if (PyErr_Occurred() == nullptr)
      PyErr_SetString(PyExc_RuntimeError, "pellucid: an iterator has come to its end too early");
    return false;
  }
  return PyErr_Occurred() == nullptr;
}

}  // namespace

bool advance_iterator(PyObject* iterator, std::int64_t count, bool ends) noexcept {
  const IteratorKind kind = iterator_kind(iterator);
  if (kind == IteratorKind::Enumerate) return advance_enumerate(iterator, count);
  if (kind != IteratorKind::List && kind != IteratorKind::ListReverse) return advance_by_next(iterator, count, ends);
  auto* it = as<SequenceIterator>(iterator);
  it->index += static_cast<Py_ssize_t>(kind == IteratorKind::List ? count : -count);
  if (!ends) return true;
  if (kind == IteratorKind::ListReverse) it->index = -1;
  const auto last = Owned<>::steal(it->sequence);
  it->sequence = nullptr;
  return true;
}

}  // namespace pellucid::py
