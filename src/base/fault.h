// FAULT("area.what"): a place where the simulator may do the rare thing. False elsewhere, at no cost.
#pragma once

#ifdef PGWEIR_SIMULATED_FAULTS
namespace pgweir {
/// Asked at each FAULT place; the simulator installs one for the time of a run.
using FaultHook = bool (*)(const char* place) noexcept;
inline FaultHook fault_hook = nullptr;
}  // namespace pgweir
#define FAULT(place) (::pgweir::fault_hook != nullptr && ::pgweir::fault_hook(place))
#else
#define FAULT(place) false
#endif
