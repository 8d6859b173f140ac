//! Regular files as targets: refusals, reads and writes, and what a failed batch keeps.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use skylight_command::Op;
use skylight_command::code::Code;
use skylight_host::{Access, Columns, Device, End, HostError, Log, MIN_SIZE_BYTES, Reason};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A file that is removed with this value.
struct Image(PathBuf);

impl Image {
    fn new(name: &str, bytes: u64) -> std::io::Result<Self> {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        File::create(&path)?.set_len(bytes)?;
        Ok(Self(path))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn refusal(path: &Path, access: Access) -> String {
    match Device::open(path, access) {
        Err(HostError::Refused(refusal)) => {
            let line = refusal.to_string();
            assert!(!line.contains('\n'), "{line:?} is not one line");
            line
        }
        Err(other) => panic!("not a refusal: {other}"),
        Ok(_) => String::new(),
    }
}

fn run(device: &mut Device, op: &[Code], offset: &[u64], size: &[u32], depth: usize) -> (Log, End) {
    let columns = Columns { op, offset, size };
    device.run(columns, depth, &mut || false).expect("the columns are good")
}

#[test]
fn invalid_targets_are_refused_in_one_line() -> Outcome {
    let missing = Path::new("/no/such/disk");
    for (path, part) in [
        (missing, "no such device or file"),
        (Path::new("/"), "is a directory"),
        (Path::new("/dev/null"), "neither a block device nor a regular file"),
        (Path::new("/no/li\nne"), "/no/li?ne: no such device"),
    ] {
        for access in [Access::ReadOnly, Access::DestroyData] {
            let line = refusal(path, access);
            assert!(line.contains(part), "{line:?} does not say {part:?}");
        }
    }
    let small = Image::new("small", MIN_SIZE_BYTES - 1)?;
    assert!(refusal(&small.0, Access::ReadOnly).contains("too small to measure"));
    let enough = Image::new("enough", MIN_SIZE_BYTES)?;
    assert_eq!(refusal(&enough.0, Access::ReadOnly), "");
    Ok(())
}

#[test]
fn writes_reach_their_offsets_and_carry_them() -> Outcome {
    let image = Image::new("written", MIN_SIZE_BYTES)?;
    let mut device = Device::open(&image.0, Access::DestroyData)?;
    let offset: Vec<u64> = (0..64).map(|i| (i * 37 % 64) * 65_536).collect();
    let rows = offset.len();
    let (log, end) = run(&mut device, &vec![Code::Write; rows], &offset, &vec![8192; rows], 7);
    assert_eq!(end, End::Complete);
    assert!((0..rows).all(|i| 0 < log.submit_ns[i] && log.submit_ns[i] <= log.complete_ns[i]));
    let (_, end) = run(&mut device, &[Code::Flush], &[0], &[0], 1);
    assert_eq!(end, End::Complete);
    let counters = device.counters();
    assert_eq!((counters.writes, counters.write_bytes), (64, 64 * 8192));
    assert_eq!(counters.flushes, 1);
    let content = fs::read(&image.0)?;
    for (at, sector) in content.chunks_exact(512).enumerate() {
        let at = 512 * at as u64;
        if offset.iter().any(|&start| (start..start + 8192).contains(&at)) {
            assert_eq!(&sector[..8], b"SKYLIGHT");
            assert_eq!(sector[8..16], at.to_le_bytes());
            assert!(sector[16..].chunks_exact(8).all(|word| word != [0; 8]));
        } else {
            assert!(sector.iter().all(|&byte| byte == 0), "byte {at} was touched");
        }
    }
    Ok(())
}

#[test]
fn reads_between_writes_do_not_change_the_pattern() -> Outcome {
    let image = Image::new("mixed", MIN_SIZE_BYTES)?;
    let mut device = Device::open(&image.0, Access::DestroyData)?;
    let op = [Code::Write, Code::Read, Code::Write, Code::Read, Code::Write];
    let (_, end) = run(&mut device, &op, &[0, 1 << 20, 4096, 1 << 21, 8192], &[4096; 5], 1);
    assert_eq!(end, End::Complete);
    let content = fs::read(&image.0)?;
    for sector in content[..12_288].chunks_exact(512) {
        assert!(sector[16..].chunks_exact(8).all(|word| word != [0; 8]));
    }
    Ok(())
}

#[test]
fn a_read_only_target_refuses_writes() -> Outcome {
    let image = Image::new("readonly", MIN_SIZE_BYTES)?;
    let mut device = Device::open(&image.0, Access::ReadOnly)?;
    for op in [Code::Write, Code::Flush] {
        let columns = Columns { op: &[Code::Read, op], offset: &[0, 0], size: &[4096, 4096] };
        let error = device.run(columns, 1, &mut || false).err();
        assert!(error.is_some_and(|e| e.to_string().contains("give --destroy-data")));
    }
    assert_eq!(device.counters().reads, 0, "nothing ran");
    Ok(())
}

#[test]
fn every_depth_completes_every_row() -> Outcome {
    let image = Image::new("depths", MIN_SIZE_BYTES)?;
    let mut device = Device::open(&image.0, Access::ReadOnly)?;
    let rows = 3000;
    let offset: Vec<u64> = (0..rows).map(|i| i as u64 * 7919 % 16_384 * 4096).collect();
    for depth in [1, 2, 3, 31, 32, 1024] {
        let (log, end) = run(&mut device, &vec![Code::Read; rows], &offset, &vec![4096; rows], depth);
        assert_eq!(end, End::Complete);
        assert!(log.complete_ns.iter().all(|&ns| ns > 0), "depth {depth}");
        assert!(log.submit_ns.is_sorted(), "rows go in order");
        let in_flight = |row: usize| {
            let earlier = log.complete_ns[..row].iter();
            earlier.filter(|&&ns| ns > log.submit_ns[row]).count()
        };
        assert!((0..rows).all(|row| in_flight(row) < depth), "depth {depth}");
    }
    Ok(())
}

#[test]
fn an_interrupt_keeps_completed_rows() -> Outcome {
    let image = Image::new("interrupted", MIN_SIZE_BYTES)?;
    let mut device = Device::open(&image.0, Access::ReadOnly)?;
    let rows = 4_000_000;
    let (op, offset, size) = (vec![Code::Read; rows], vec![0; rows], vec![4096; rows]);
    let polls = Cell::new(0);
    let mut interrupted = || {
        polls.set(polls.get() + 1);
        polls.get() == 5
    };
    let columns = Columns { op: &op, offset: &offset, size: &size };
    let (log, end) = device.run(columns, 4, &mut interrupted)?;
    assert_eq!(end, End::Interrupted);
    let done = log.complete_ns.iter().filter(|&&ns| ns > 0).count();
    assert!(done > 0 && done < rows, "{done}");
    assert!(log.complete_ns[..done].iter().all(|&ns| ns > 0), "I/O in flight was waited for");
    assert!(log.submit_ns[done..].iter().all(|&ns| ns == 0));
    let (_, end) = run(&mut device, &[Code::Read], &[0], &[4096], 1);
    assert_eq!(end, End::Complete, "the device is as good as before");
    Ok(())
}

#[test]
fn a_shrinking_target_ends_the_batch_and_keeps_its_log() -> Outcome {
    let image = Image::new("shrinks", MIN_SIZE_BYTES)?;
    for access in [Access::ReadOnly, Access::DestroyData] {
        File::options().write(true).open(&image.0)?.set_len(MIN_SIZE_BYTES)?;
        let mut device = Device::open(&image.0, access)?;
        let rows = 4_000_000;
        let code = if access == Access::ReadOnly { Code::Read } else { Code::Write };
        let (op, offset, size) = (vec![code; rows], vec![1 << 20; rows], vec![4096; rows]);
        let truncate = || {
            let file = File::options().write(true).open(&image.0);
            file.and_then(|file| file.set_len(4096)).expect("it can be truncated");
            false
        };
        let mut once = Some(truncate);
        let columns = Columns { op: &op, offset: &offset, size: &size };
        let (log, end) = device.run(columns, 1, &mut || once.take().is_some_and(|cut| cut()))?;
        let End::Failed(failure) = end else {
            panic!("{access:?}: {end:?}");
        };
        assert!(matches!(failure.reason, Reason::Shrunk(_)), "{failure}");
        assert!(failure.to_string().contains("offset 1048576"), "{failure}");
        assert!(log.complete_ns[0] > 0 && log.complete_ns[rows - 1] == 0);
        let (log, end) = run(&mut device, &[Code::Read], &[0], &[4096], 1);
        assert!(matches!(end, End::Failed(_)), "it stays failed: {end:?}");
        assert_eq!(log.complete_ns, [0]);
    }
    Ok(())
}

#[test]
fn a_file_without_permission_is_refused_unless_root_may() -> Outcome {
    let image = Image::new("locked", MIN_SIZE_BYTES)?;
    fs::set_permissions(&image.0, fs::Permissions::from_mode(0o000))?;
    let line = refusal(&image.0, Access::ReadOnly);
    match File::open(&image.0) {
        Ok(_) => assert_eq!(line, "", "this user may read everything"),
        Err(_) => assert!(line.contains("no permission to open it for reading"), "{line}"),
    }
    Ok(())
}

/// An MBR with one partition of 20,480 sectors.
fn mbr() -> Vec<u8> {
    let mut sector = vec![0; 512];
    sector[450] = 0x83;
    sector[454..458].copy_from_slice(&2048_u32.to_le_bytes());
    sector[458..462].copy_from_slice(&20_480_u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// The superblock of a Linux RAID of version 1.0, which records its own location.
fn md(offset: u64) -> Vec<u8> {
    let mut block = vec![0; 256];
    block[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    block[4] = 1;
    block[144..152].copy_from_slice(&(offset / 512).to_le_bytes());
    block
}

#[test]
fn foreign_signatures_are_refused_for_writing_only() -> Outcome {
    let image = Image::new("formatted", MIN_SIZE_BYTES)?;
    let file = File::options().write(true).open(&image.0)?;
    let end = MIN_SIZE_BYTES - 8192;
    for (at, bytes, what) in [
        (1080, vec![0x53, 0xef], "holds a file system (ext2); use an empty file"),
        (65_600, b"_BHRfS_M".to_vec(), "holds a file system (btrfs)"),
        (end, md(end), "holds a member of a RAID or volume group (linux_raid_member)"),
        (0, mbr(), "holds a partition table (dos)"),
    ] {
        file.write_all_at(&bytes, at)?;
        let line = refusal(&image.0, Access::DestroyData);
        assert!(line.contains(what) && line.contains("wipefs -a"), "{line:?} does not say {what:?}");
        assert_eq!(refusal(&image.0, Access::ReadOnly), "");
        file.write_all_at(&vec![0; bytes.len()], at)?;
    }
    assert_eq!(refusal(&image.0, Access::DestroyData), "");
    Ok(())
}

#[test]
fn a_probed_target_can_be_probed_again() -> Outcome {
    let image = Image::new("again", MIN_SIZE_BYTES)?;
    let mut device = Device::open(&image.0, Access::DestroyData)?;
    let offset: Vec<u64> = (0..64).map(|i| i * 4096).collect();
    let (_, end) = run(&mut device, &[Code::Write; 64], &offset, &[4096; 64], 1);
    assert_eq!(end, End::Complete);
    drop(device);
    assert_eq!(refusal(&image.0, Access::DestroyData), "");
    Ok(())
}

fn failed(number: i32, took_ns: Option<u64>) -> String {
    let reason = Reason::Errno(number);
    skylight_host::Failure {
        path: "image".into(),
        op: Op::Write,
        offset: 0,
        size: 4096,
        lba: None,
        took_ns,
        reason,
    }
    .to_string()
}

#[test]
fn enospc_has_its_own_mend() {
    assert!(failed(28, None).contains("free space on the file system that holds it"));
    assert!(failed(5, None).contains("check cables"));
}

#[test]
fn a_command_that_was_given_up_is_told_from_one_that_failed() {
    assert!(failed(5, Some(6_240_000_000)).contains("at offset 0 failed after 6.2 s: "));
    assert!(failed(5, Some(999_999_999)).contains("at offset 0 failed: "));
}

#[test]
fn a_tiny_file_is_reported_with_its_size() -> Outcome {
    let image = Image::new("tiny", 511)?;
    assert!(refusal(&image.0, Access::ReadOnly).contains("has 511 bytes, too small to measure"));
    Ok(())
}
