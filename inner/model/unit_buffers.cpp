#include "inner/model/unit_buffers.hpp"

namespace isthmus::inner {

UnitBuffers::UnitBuffers(const Unit& unit, DType compute, bool training, const Ops& ops,
                         BufferPlan& plan)
    : unit_(&unit), compute_(compute) {
    parameters_id_ = plan.add(unit.name, "parameters", unit.count * 4, kAlways);
    if (training) gradients_id_ = plan.add(unit.name, "gradients", unit.count * 4, kAlways);
    if (compute == DType::kBF16)
        copy_id_ = plan.add(unit.name + " bf16", "parameters, bf16 copy", unit.count * 2, kAlways);
    for (const View& view : unit.views) {
        // Tables of the embedding are looked up, and multiplied only when the head is tied to them.
        if (view.dims.size() != 2 || view.name.find("position") != std::string::npos) continue;
        const std::int64_t bytes = ops.packed_bytes(view.dims[0], view.dims[1], compute);
        if (bytes > 0)
            packed_.push_back(
                {view.name, plan.add(view.name + " packed", "packed weights", bytes, kAlways)});
    }
}

void UnitBuffers::bind(const BufferPlan& plan, const Arena& arena) {
    const auto floats = [&](BufferId id) {
        return std::span<float>(reinterpret_cast<float*>(arena.at(plan.offset(id))),
                                static_cast<std::size_t>(unit_->count));
    };
    parameters_ = floats(parameters_id_);
    if (gradients_id_) gradients_ = floats(gradients_id_);
    if (copy_id_) copy_ = reinterpret_cast<bf16*>(arena.at(plan.offset(copy_id_)));
    for (Packed& packed : packed_) packed.data = arena.at(plan.offset(packed.id));
}

void UnitBuffers::refresh(Ops& ops, Stream stream) {
    if (copy_ != nullptr)
        ops.convert(stream, tensor_of(parameters_.data(), 1, unit_->count),
                    tensor_of(copy_, 1, unit_->count));
    repack(ops, stream);
}

void UnitBuffers::repack(Ops& ops, Stream stream) {
    for (const Packed& packed : packed_)
        ops.pack(stream, weight(packed.view.substr(unit_->name.size() + 1)));
}

std::string UnitBuffers::full(const std::string& name) const {
    return unit_->name + "." + name;
}

const float* UnitBuffers::vector(const std::string& name) const {
    const View* view = unit_->find(full(name));
    return view == nullptr ? nullptr : parameters_.data() + view->offset;
}

float* UnitBuffers::vector_gradient(const std::string& name) const {
    const View* view = unit_->find(full(name));
    return view == nullptr ? nullptr : gradients_.data() + view->offset;
}

Weight UnitBuffers::weight(const std::string& name) const {
    const View& view = unit_->view(full(name));
    Weight weight{view.dims[0], view.dims[1], {}, nullptr};
    weight.plain = compute_ == DType::kF32
                       ? tensor_of(parameters_.data() + view.offset, view.dims[0], view.dims[1])
                       : tensor_of(copy_ + view.offset, view.dims[0], view.dims[1]);
    for (const Packed& packed : packed_)
        if (packed.view == full(name)) weight.packed = packed.data;
    return weight;
}

Tensor UnitBuffers::matrix(const std::string& name) const {
    const View& view = unit_->view(full(name));
    return tensor_of(parameters_.data() + view.offset, view.dims[0], view.dims[1]);
}

Tensor UnitBuffers::matrix_gradient(const std::string& name) const {
    const View& view = unit_->view(full(name));
    return tensor_of(gradients_.data() + view.offset, view.dims[0], view.dims[1]);
}

}  // namespace isthmus::inner
