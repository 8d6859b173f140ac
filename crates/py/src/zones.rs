//! Zones as columns for Python (`skylight/zoned/zones.py`).
//!
//! Invariants: no logic; sizes and places are bytes; types and conditions have the numbers of ZBC-2.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skylight_disk::{Lba, SECTOR_BYTES};
use skylight_layer::{ZoneDescriptor, ZoneFilter, ZoneLayout, Zoned};

/// The write pointer of a zone that has none.
const NO_POINTER: u64 = u64::MAX;

/// Every zone of a drive.
pub fn all(zoned: &dyn Zoned) -> Vec<ZoneDescriptor> {
    let mut zones = Vec::with_capacity(zoned.layout().zones as usize);
    // The first sector is on every drive.
    let listed = zoned.report(Lba(0), ZoneFilter::All, usize::MAX, &mut zones);
    debug_assert!(listed.is_ok(), "{listed:?}");
    zones
}

/// The fixed part by the names of `ZoneLayout`.
pub fn layout<'py>(py: Python<'py>, layout: &ZoneLayout) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("model", layout.model.name())?;
    dict.set_item("zone_bytes", layout.zone.bytes())?;
    dict.set_item("zones", layout.zones)?;
    dict.set_item("conventional_zones", layout.conventional)?;
    dict.set_item("max_open", layout.max_open)?;
    dict.set_item("max_active", layout.max_active)?;
    dict.set_item("recommended_non_sequential", layout.recommended_non_sequential)?;
    Ok(dict)
}

/// Zones by the names of the columns of `Zones`.
pub fn columns<'py>(py: Python<'py>, zones: &[ZoneDescriptor]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let bytes = |get: fn(&ZoneDescriptor) -> u64| PyArray1::from_iter(py, zones.iter().map(get));
    let pointer = |zone: &ZoneDescriptor| zone.write_pointer.map_or(NO_POINTER, |at| at.get() * SECTOR_BYTES);
    dict.set_item("start_bytes", bytes(|zone| zone.start.get() * SECTOR_BYTES))?;
    dict.set_item("size_bytes", bytes(|zone| zone.len.bytes()))?;
    dict.set_item("capacity_bytes", bytes(|zone| zone.capacity.bytes()))?;
    dict.set_item("write_pointer_bytes", PyArray1::from_iter(py, zones.iter().map(pointer)))?;
    dict.set_item("kind", PyArray1::from_iter(py, zones.iter().map(|zone| zone.kind as u8)))?;
    dict.set_item("condition", PyArray1::from_iter(py, zones.iter().map(|zone| zone.condition as u8)))?;
    let flags = |get: fn(&ZoneDescriptor) -> bool| PyArray1::from_iter(py, zones.iter().map(get));
    dict.set_item("reset_recommended", flags(|zone| zone.reset_recommended))?;
    dict.set_item("non_sequential", flags(|zone| zone.non_sequential))?;
    Ok(dict)
}
