//! What a disk is connected by.
//!
//! Source: Linux, the device paths of `Documentation/ABI/testing/sysfs-bus-*`.

use crate::sysfs::Node;

/// What a disk is connected by, from the path of its device. An adapter comes before what is behind it: of a SATA
/// disk in a USB enclosure the bridge decides what commands pass.
pub fn bus_of(disk: &Node) -> Option<&'static str> {
    /// Beginnings of a folder of the path, followed by a digit.
    const FOLDERS: [(&str, &str); 9] = [
        ("usb", "usb"),
        ("session", "iscsi"),
        ("ata", "ata"),
        ("end_device-", "sas"),
        ("rport-", "fc"),
        ("virtio", "virtio"),
        ("nvme", "nvme"),
        ("mmc", "mmc"),
        ("vmbus_", "hyperv"),
    ];
    /// Beginnings of names of disks without a bus.
    const NAMES: [(&str, &str); 8] = [
        ("loop", "loop"),
        ("dm-", "dm"),
        ("md", "md"),
        ("zram", "zram"),
        ("ram", "ram"),
        ("nbd", "nbd"),
        ("ublk", "ublk"),
        ("null", "null"),
    ];
    let has = |name: &str| {
        let begins = |part: &str| {
            part.strip_prefix(name).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        disk.dir().iter().any(|part| begins(&part.to_string_lossy()))
    };
    let folder = FOLDERS.iter().find(|(name, _)| has(name));
    let name = || NAMES.iter().find(|(name, _)| disk.name().starts_with(name));
    let scsi = || disk.dir().join("device/scsi_disk").exists().then_some("scsi");
    folder.or_else(name).map(|&(_, bus)| bus).or_else(scsi)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_sysfs::Tree;

    #[test]
    fn the_bus_is_found_in_the_path() {
        let tree = Tree::new("bus");
        for (at, (name, path, bus)) in [
            ("sda", "pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda", Some("ata")),
            (
                "sdb",
                "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb",
                Some("usb"),
            ),
            ("sdc", "pci0000:00/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sdc", Some("sas")),
            ("sdd", "platform/host9/session2/target9:0:0/9:0:0:1/block/sdd", Some("iscsi")),
            ("vda", "pci0000:00/0000:00:03.0/virtio1/block/vda", Some("virtio")),
            ("nvme0n1", "pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1", Some("nvme")),
            ("loop3", "virtual/block/loop3", Some("loop")),
            ("dm-0", "virtual/block/dm-0", Some("dm")),
            ("xyz", "virtual/block/xyz", None),
        ]
        .into_iter()
        .enumerate()
        {
            let number = format!("250:{at}");
            tree.file(&format!("sys/devices/{path}/dev"), &number);
            tree.link(&format!("sys/dev/block/{number}"), &format!("../../devices/{path}"));
            let node = tree.sysfs().node((250, at as u32));
            assert_eq!(node.as_ref().map(bus_of), Some(bus), "{name}");
        }
    }
}
