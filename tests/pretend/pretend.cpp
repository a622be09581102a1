// A second device on a machine that has none: its memory is the host's, its kernels are the CPU's.
// It is strict where CUDA is: an operation whose tensors lie on two devices is an error, but for
// tensors without dimensions, and its memory is not open to numpy. Its random numbers are its own,
// beside the CPU's.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <unordered_set>

namespace {

constexpr auto KIND = c10::DeviceType::PrivateUse1;

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* place = bytes ? std::malloc(bytes) : nullptr;
    return {place, place, &std::free, c10::Device(KIND, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

Memory memory;

at::Generator& own_generator() {
  static at::Generator made = at::detail::createCPUGenerator(11);
  return made;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(KIND, 0)); }
  c10::DeviceType type() const override { return KIND; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return c10::Device(KIND, 0); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag)
      const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return c10::GetAllocator(c10::kCPU);
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Device getDeviceFromPtr(void*) const override { return c10::Device(KIND, 0); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return own_generator().clone();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto made = memory.allocate(bytes);
    std::memcpy(made.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(made));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

at::Tensor empty(
    c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(
      size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(
      size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(dtype));
}

// The same memory, seen from the CPU.
at::Tensor seen(const at::Tensor& one) {
  if (one.device().is_cpu()) return one;
  auto bytes = one.storage().nbytes() - one.storage_offset() * one.element_size();
  if (one.numel() == 0) return at::empty_strided(one.sizes(), one.strides(), one.scalar_type());
  return at::from_blob(
      one.data_ptr(), one.sizes(), one.strides(), [held = one, bytes](void*) {},
      at::TensorOptions().dtype(one.scalar_type()).device(c10::kCPU));
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& into, bool) {
  auto source = seen(self).resolve_conj().resolve_neg();
  if (into.numel()) seen(into).copy_(source);
  return into;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& into) {
  if (self.sizes() != into.sizes()) into.resize_(self.sizes());
  return copy_from(self, into, false);
}

const at::Tensor& resize(
    const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* held = self.unsafeGetTensorImpl();
  held->set_sizes_contiguous(size);
  auto needed = (held->storage_offset() + held->numel()) * held->itemsize();
  if (needed > held->storage().nbytes()) {
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(held->storage(), needed);
  }
  return self;
}

at::Tensor& set_storage(
    at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size,
    c10::IntArrayRef stride) {
  auto* held = self.unsafeGetTensorImpl();
  held->set_storage_keep_dtype(std::move(source));
  held->set_storage_offset(offset);
  if (stride.data() != nullptr && stride.size() == size.size()) {
    held->set_sizes_and_strides(size, stride);
  } else {
    held->set_sizes_contiguous(size);
  }
  return self;
}

at::Tensor& set_whole(at::Tensor& self, c10::Storage source) {
  int64_t count = source.nbytes() / self.element_size();
  return set_storage(self, std::move(source), 0, {count}, {1});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Scalar local_scalar(const at::Tensor& self) { return seen(self).item(); }

// Where a tensor of the device may be indexed by one of the CPU.
bool indexes(const std::string& name) {
  static const std::unordered_set<std::string> open = {
      "aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
      "aten::_unsafe_index", "aten::_unsafe_index_put"};
  return open.count(name) > 0;
}

void look(const at::Tensor& one, bool& here, bool& there) {
  if (!one.defined() || one.dim() == 0) return;
  (one.device().is_cpu() ? there : here) = true;
}

// A tensor of the CPU takes indices and values of the device; one of the device only its own values.
at::Tensor& index_put(
    at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& values,
    bool accumulate, bool unsafe) {
  TORCH_CHECK(
      self.device().is_cpu() || !values.device().is_cpu() || values.dim() == 0,
      "Expected all tensors to be on the same device, but got values is on cpu, different from "
      "other tensors on npu:0");
  c10::List<std::optional<at::Tensor>> places;
  for (const std::optional<at::Tensor>& one : indices) {
    places.push_back(one ? std::optional<at::Tensor>(seen(*one)) : one);
  }
  auto target = seen(self);
  at::_index_put_impl_(target, places, seen(values), accumulate, unsafe);
  return self;
}

// CUDA's fused cells, by the formulas of torch.nn.LSTM and torch.nn.GRU: the CPU has no such kernels.
using Maybe = std::optional<at::Tensor>;

at::Tensor with(const at::Tensor& gates, const Maybe& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input, const at::Tensor& hidden, const at::Tensor& cx, const Maybe& b1,
    const Maybe& b2) {
  auto gates = (with(input, b1) + with(hidden, b2)).chunk(4, 1);
  auto i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(), o = gates[3].sigmoid();
  auto cy = f * cx + i * g;
  return {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const Maybe& grad_hy, const Maybe& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
    const at::Tensor& workspace, bool has_bias) {
  auto parts = workspace.chunk(4, 1);
  auto i = parts[0], f = parts[1], g = parts[2], o = parts[3];
  auto dh = grad_hy && grad_hy->defined() ? *grad_hy : at::zeros_like(cy);
  auto dc = grad_cy && grad_cy->defined() ? *grad_cy : at::zeros_like(cy);
  auto t = cy.tanh();
  dc = dc + dh * o * (1 - t * t);
  auto gates = at::cat(
      {dc * g * i * (1 - i), dc * cx * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)}, 1);
  return {gates, dc * f, has_bias ? gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(
    const at::Tensor& input, const at::Tensor& hidden, const at::Tensor& hx, const Maybe& b1,
    const Maybe& b2) {
  auto a = with(input, b1).chunk(3, 1), b = with(hidden, b2).chunk(3, 1);
  auto r = (a[0] + b[0]).sigmoid(), z = (a[1] + b[1]).sigmoid();
  auto n = (a[2] + r * b[2]).tanh();
  return {n + z * (hx - n), at::cat({r, z, n, hx, b[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad, const at::Tensor& workspace, bool has_bias) {
  auto parts = workspace.chunk(5, 1);
  auto r = parts[0], z = parts[1], n = parts[2], hx = parts[3], hn = parts[4];
  auto dn = grad * (1 - z) * (1 - n * n);
  auto dz = grad * (hx - n) * z * (1 - z), dr = dn * hn * r * (1 - r);
  auto input = at::cat({dr, dz, dn}, 1), hidden = at::cat({dr, dz, dn * r}, 1);
  return {input, hidden, grad * z, has_bias ? input.sum(0) : at::Tensor(),
          has_bias ? hidden.sum(0) : at::Tensor()};
}

// What draws random numbers and is given no generator draws those of the device.
void draw_own(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
  auto given = torch::jit::last(*stack, schema.arguments().size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (schema.arguments()[i].name() == "generator" && given[i].isNone()) {
      (*stack)[stack->size() - given.size() + i] = own_generator();
    }
  }
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  auto given = torch::jit::last(*stack, schema.arguments().size());
  bool here = false, there = false;
  // CUDA's own tensors take the CPU's indices; the CPU's take none but their own.
  bool free = indexes(schema.operator_name().name) && !given[0].toTensor().device().is_cpu();
  for (const auto& value : given) {
    if (value.isTensor()) look(value.toTensor(), here, there);
    if (value.isTensorList()) {
      for (const at::Tensor& one : value.toTensorVector()) look(one, here, there);
    } else if (!free && value.isList()) {
      for (const c10::IValue& one : value.toListRef()) {
        if (one.isTensor()) look(one.toTensor(), here, there);
      }
    }
  }
  TORCH_CHECK(
      !(here && there),
      "Expected all tensors to be on the same device, but found at least two devices, npu:0 "
      "and cpu! (", toString(schema.operator_name()), ")");
  draw_own(schema, stack);
  at::native::cpu_fallback(op, stack);
}

void seed(int64_t number) {
  std::lock_guard<std::mutex> lock(own_generator().mutex());
  own_generator().set_current_seed(number ^ 0x5eed);  // other numbers than the CPU draws for it
}

at::Tensor state() { return own_generator().get_state(); }

void put_back(const at::Tensor& state) { own_generator().set_state(state); }

}  // namespace

namespace c10::impl {
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage", set_whole);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("_index_put_impl_", index_put);
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

TORCH_LIBRARY(pretend, m) {
  m.def("seed(int number) -> ()", seed);
  m.def("state() -> Tensor", state);
  m.def("put_back(Tensor state) -> ()", put_back);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

namespace {
struct Setup {
  Setup() {
    c10::SetAllocator(KIND, &memory);
    at::RegisterPrivateUse1HooksInterface(new Hooks());
  }
} setup;
}  // namespace
