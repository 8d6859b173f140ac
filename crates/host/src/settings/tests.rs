//! Settings that are switched, noted and restored, on a tree of plain files and a drive that answers.

use std::fs;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use super::*;
use crate::caching::tests::FakeDrive;
use crate::fake_sysfs::Tree;
use crate::sg_io::{CommandFault, Transfer};

/// A SATA disk with its cache on, and the path of its setting.
fn disk(tree: &Tree) -> (Node, PathBuf) {
    let node = tree.disk("sdq", (8, 256));
    tree.file("sys/devices/sdq/queue/write_cache", "write back");
    let file = tree.file("sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type", "write back\n");
    (node, file)
}

fn read(file: &Path) -> Option<String> {
    Attribute(file.to_owned()).read().ok()
}

fn subject(node: &Node) -> Subject<'_> {
    Subject {
        path: "/dev/sdq",
        drive: Some("Model-1".into()),
        access: Access::DestroyData,
        node: Some(node),
        boot: Some("b007".into()),
        line: Box::new(|| None),
    }
}

#[test]
fn the_cache_is_switched_and_restored_on_drop() -> Result<(), HostError> {
    let tree = Tree::new("switch");
    let (node, file) = disk(&tree);
    let note = tree.path("note");
    {
        let switch = subject(&node).switch(Setting::WriteCache, false, Some(&note))?;
        assert_eq!((switch.achieved(), switch.why()), (State::Off, None), "{switch:?}");
        assert_eq!(read(&file).as_deref(), Some(CACHE_OFF));
        let kept = RestoreNote::read(&note)?;
        assert_eq!(
            kept.and_then(|note| note.value(Setting::WriteCache).map(str::to_owned)).as_deref(),
            Some(CACHE_ON)
        );
    }
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
    assert!(!note.exists());
    Ok(())
}

#[test]
fn the_next_run_restores_what_a_killed_run_left() -> Result<(), HostError> {
    let tree = Tree::new("killed");
    let (node, file) = disk(&tree);
    let note = tree.path("note");
    std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
    let restore = subject(&node).restore_from(&note)?;
    assert_eq!(restore, [CACHE_ON]);
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
    assert_eq!(subject(&node).restore_from(&note)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_drive_that_vanished_is_a_failure_and_its_note_stays() -> Result<(), HostError> {
    let tree = Tree::new("vanished");
    let (node, file) = disk(&tree);
    let note = tree.path("note");
    let mut switch = subject(&node).switch(Setting::WriteCache, false, Some(&note))?;
    let _ = fs::remove_file(&file);
    let error = switch.restore().err();
    assert!(matches!(error, Some(HostError::NotRestored(_))), "{error:?}");
    let line = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(line.starts_with("/dev/sdq: its write cache could not be set to 'write back'"), "{line}");
    assert!(!file.exists(), "no file is created in its place");
    assert!(note.exists());
    Ok(())
}

#[test]
fn an_earlier_note_takes_precedence_over_the_current_setting() -> Result<(), HostError> {
    let tree = Tree::new("earlier");
    let (node, file) = disk(&tree);
    let note = tree.path("note");
    std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
    // Now the cache is off, which the killed run left; turning it on must not note "off".
    drop(subject(&node).switch(Setting::WriteCache, true, Some(&note))?);
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
    assert!(!note.exists());
    Ok(())
}

#[test]
fn a_note_of_another_drive_or_a_damaged_one_is_not_used() -> Result<(), HostError> {
    let tree = Tree::new("foreign");
    let (node, file) = disk(&tree);
    let note = tree.path("note");
    std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
    let mut other = subject(&node);
    other.drive = Some("Model-2".into());
    let error = other.restore_from(&note).err().map(|e| e.to_string());
    assert!(error.is_some_and(|line| line.contains("belongs to another drive")));
    tree.file("note", "skylight restore");
    let error = subject(&node).restore_from(&note).err();
    assert!(error.is_some_and(|e| e.to_string().contains("not a restore note")));
    assert_eq!(read(&file).as_deref(), Some(CACHE_OFF));
    Ok(())
}

#[test]
fn a_note_of_an_earlier_boot_restores_nothing() -> Result<(), HostError> {
    let tree = Tree::new("boot");
    let (node, file) = disk(&tree);
    let note = tree.path("note");
    std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
    let now = Subject { boot: Some("b008".into()), ..subject(&node) };
    let line = now.restore_from(&note).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        line.contains("its write cache was 'write back' and is now 'write through'; set them by hand"),
        "{line}"
    );
    assert_eq!(read(&file).as_deref(), Some(CACHE_OFF), "somebody may want it so");
    assert!(note.exists());
    // Set by hand, or by the boot: nothing is left to do.
    tree.file("sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type", CACHE_ON);
    assert_eq!(now.restore_from(&note)?, Vec::<String>::new());
    assert!(!note.exists());
    Ok(())
}

#[test]
fn a_note_without_a_boot_is_of_an_earlier_version_and_restores() -> Result<(), HostError> {
    let tree = Tree::new("no-boot");
    let (node, file) = disk(&tree);
    tree.file("sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type", CACHE_OFF);
    let note = tree.file("note", "skylight restore note 1\ndrive = Model-1\ncache_type = write back\n");
    assert_eq!(subject(&node).restore_from(&note)?, [CACHE_ON]);
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
    Ok(())
}

#[test]
fn the_queue_is_made_as_deep_as_the_tests_and_put_back() -> Result<(), HostError> {
    let tree = Tree::new("queue");
    let (node, _) = disk(&tree);
    let (file, note) = (tree.file("sys/devices/sdq/device/queue_depth", "1\n"), tree.path("note"));
    let subject = subject(&node);
    let switch = subject.switch(Setting::QueueDepth, true, Some(&note))?;
    assert_eq!((switch.achieved(), switch.why()), (State::On, None), "{switch:?}");
    assert_eq!(read(&file).as_deref(), Some("31"));
    drop(switch);
    assert_eq!(read(&file).as_deref(), Some("1"));
    assert!(!note.exists());
    tree.file("sys/devices/sdq/device/queue_depth", "32\n");
    let switch = subject.switch(Setting::QueueDepth, true, Some(&note))?;
    assert_eq!(switch.achieved(), State::On);
    assert_eq!(read(&file).as_deref(), Some("32"), "a deeper one is left alone");
    Ok(())
}

#[test]
fn settings_share_a_note_until_the_last_is_restored() -> Result<(), HostError> {
    let tree = Tree::new("shared");
    let (node, file) = disk(&tree);
    // Sysfs shows a list, so what was written is not what is read; here it is.
    let scheduler = tree.file("sys/devices/sdq/queue/scheduler", "none [mq-deadline] kyber\n");
    let note = tree.path("note");
    let subject = subject(&node);
    let cache = subject.switch(Setting::WriteCache, false, Some(&note))?;
    let order = subject.switch(Setting::Scheduler, false, Some(&note))?;
    assert_eq!((order.achieved(), order.why()), (State::Off, None), "{order:?}");
    let settings = RestoreNote::read(&note)?.map(|note| note.settings);
    let expected = [(Setting::WriteCache, CACHE_ON.into()), (Setting::Scheduler, "mq-deadline".into())];
    assert_eq!(settings.as_deref(), Some(&expected[..]));
    drop(cache);
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
    let settings = RestoreNote::read(&note)?.map(|note| note.settings);
    assert_eq!(settings.as_deref(), Some(&expected[1..]));
    std::mem::forget(order);
    assert_eq!(subject.restore_from(&note)?, ["mq-deadline"]);
    assert_eq!(read(&scheduler).as_deref(), Some("mq-deadline"));
    assert!(!note.exists());
    Ok(())
}

#[test]
fn one_setting_that_fails_keeps_no_other_from_being_restored() -> Result<(), HostError> {
    let tree = Tree::new("partly");
    let (node, file) = disk(&tree);
    let scheduler = tree.file("sys/devices/sdq/queue/scheduler", "none [mq-deadline] kyber\n");
    let note = tree.path("note");
    std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
    std::mem::forget(subject(&node).switch(Setting::Scheduler, false, Some(&note))?);
    let _ = fs::remove_file(&file);
    let error = subject(&node).restore_from(&note).err().map(|error| error.to_string());
    assert!(error.is_some_and(|line| line.contains("cannot be switched here")));
    assert_eq!(read(&scheduler).as_deref(), Some("mq-deadline"));
    let left = RestoreNote::read(&note)?.map(|note| note.settings);
    assert_eq!(left, Some(vec![(Setting::WriteCache, CACHE_ON.to_owned())]));
    Ok(())
}

#[test]
fn look_ahead_that_cannot_be_read_is_not_switched() -> Result<(), HostError> {
    let tree = Tree::new("ahead");
    let (node, _) = disk(&tree);
    let taken = tree.file("plain", "no disk");
    let file = File::options().read(true).write(true).open(taken).ok();
    let line = || -> Option<Line> { Some(Box::new(SgIo { file: file.as_ref()?.try_clone().ok()? })) };
    let subject = Subject { line: Box::new(line), ..subject(&node) };
    let switch = subject.switch(Setting::LookAhead, false, None)?;
    assert_eq!(switch.achieved(), State::Unknown);
    assert!(
        switch.why().is_some_and(|why| why.starts_with("the drive cannot be asked for it: ")),
        "{switch:?}"
    );
    assert!(switch.undo.is_none());
    Ok(())
}

#[test]
fn a_cache_that_cannot_be_switched_is_reported_and_not_changed() -> Result<(), HostError> {
    let tree = Tree::new("cannot");
    let (node, file) = disk(&tree);
    let mut read_only = subject(&node);
    read_only.access = Access::ReadOnly;
    let switch = read_only.switch(Setting::WriteCache, false, None)?;
    assert_eq!(switch.achieved(), State::On);
    assert!(switch.why().is_some_and(|why| why.contains("read-only")));
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));

    let bare = tree.disk("sdr", (8, 272));
    tree.file("sys/devices/sdr/queue/write_cache", "write back");
    let switch = subject(&bare).switch(Setting::WriteCache, false, None)?;
    assert_eq!(switch.achieved(), State::On);
    assert!(switch.why().is_some_and(|why| why.contains("no switch")));
    Ok(())
}

#[test]
fn without_a_note_nothing_is_changed() {
    let tree = Tree::new("nonote");
    let (node, file) = disk(&tree);
    tree.file("taken", "a file where the folder should be");
    let nowhere = tree.path("taken/note");
    let error = subject(&node).switch(Setting::WriteCache, false, Some(&nowhere)).err();
    assert!(error.is_some_and(|e| e.to_string().contains("cannot keep the restore note")));
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
}

#[test]
fn the_declared_state_is_read_from_either_attribute() {
    let tree = Tree::new("state");
    let node = tree.disk("sdq", (8, 256));
    assert_eq!(subject(&node).state(Setting::WriteCache), State::Unknown);
    tree.file("sys/devices/sdq/queue/write_cache", "write through");
    assert_eq!(subject(&node).state(Setting::WriteCache), State::Off);
    let mode_page = "sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type";
    tree.file(mode_page, "write back, no read (daft)");
    assert_eq!(subject(&node).state(Setting::WriteCache), State::On);
    tree.file(mode_page, "none");
    assert_eq!(subject(&node).state(Setting::WriteCache), State::Off);
}

/// A drive on a line; what the kernel keeps of it is a plain file, so it follows nothing that is written there.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<FakeDrive>>);

impl Shared {
    fn new(write_cache: bool) -> Self {
        let drive = FakeDrive::new();
        drive.write_cache.replace(write_cache);
        Self(Arc::new(Mutex::new(drive)))
    }

    /// What the kernel does to a drive when its attribute is written.
    fn set_write_cache(&self, on: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_cache.replace(on);
    }

    fn subject<'a>(&'a self, node: &'a Node) -> Subject<'a> {
        Subject { line: Box::new(|| Some(Box::new(self.clone()))), ..subject(node) }
    }
}

impl Link for Shared {
    fn send(&self, command: &[u8], data: Transfer<'_>) -> Result<usize, CommandFault> {
        (&*self.0.lock().unwrap_or_else(PoisonError::into_inner)).send(command, data)
    }
}

#[test]
fn nothing_is_changed_where_drive_and_kernel_disagree_about_the_cache() -> Result<(), HostError> {
    let tree = Tree::new("disagree");
    let (node, file) = disk(&tree);
    let (drive, note) = (Shared::new(false), tree.path("note"));
    for on in [false, true] {
        let switch = drive.subject(&node).switch(Setting::WriteCache, on, Some(&note))?;
        assert_eq!(switch.achieved(), State::Off, "what the drive says");
        assert!(switch.why().is_some_and(|why| why.starts_with("drive and kernel disagree")), "{switch:?}");
        drop(switch);
        assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
        assert!(!note.exists());
    }
    Ok(())
}

#[test]
fn the_cache_is_back_only_if_the_drive_says_so() -> Result<(), HostError> {
    let tree = Tree::new("drive-back");
    let (node, file) = disk(&tree);
    let (drive, note) = (Shared::new(true), tree.path("note"));
    std::mem::forget(drive.subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
    drive.set_write_cache(false);
    // The kernel has the original setting again, and the drive does not follow.
    tree.file("sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type", "write back\n");
    let error = drive.subject(&node).restore_from(&note).err();
    assert!(matches!(error, Some(HostError::NotRestored(_))), "{error:?}");
    let line = error.map(|error| error.to_string()).unwrap_or_default();
    let end = format!("or delete {} to leave the setting as it is", note.display());
    assert!(line.contains("it kept another setting") && line.ends_with(&end), "{line}");
    assert!(note.exists());
    drive.set_write_cache(true);
    assert_eq!(drive.subject(&node).restore_from(&note)?, [CACHE_ON]);
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
    assert!(!note.exists());
    Ok(())
}

#[test]
fn a_partition_changes_no_setting_of_its_disk() -> Result<(), HostError> {
    let tree = Tree::new("part");
    let (node, file) = disk(&tree);
    let scheduler = tree.file("sys/devices/sdq/queue/scheduler", "none [mq-deadline] kyber\n");
    let part = tree.partition("sdq", 1, (8, 257));
    assert_eq!(part.disk(), node);
    let (drive, note) = (Shared::new(true), tree.path("note"));
    for setting in [Setting::WriteCache, Setting::LookAhead, Setting::Scheduler] {
        let switch = drive.subject(&part).switch(setting, false, Some(&note))?;
        assert_eq!(switch.why(), Some("a partition: its disk is shared"), "{setting:?}");
        assert_eq!(switch.achieved(), State::On);
    }
    assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
    assert_eq!(read(&scheduler).as_deref(), Some("mq-deadline"));
    assert_eq!(drive.subject(&part).state(Setting::LookAhead), State::On);
    assert!(!note.exists());
    Ok(())
}

#[test]
fn a_write_that_fails_and_is_obeyed_has_restored_the_setting() {
    /// Obeys, and answers with an error.
    #[derive(Debug)]
    struct Grumbling(Attribute);
    impl Knob for Grumbling {
        fn read(&self) -> io::Result<String> {
            self.0.read()
        }

        fn write(&self, value: &str) -> io::Result<()> {
            self.0.write(value)?;
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
    }
    let tree = Tree::new("grumbling");
    let (_, file) = disk(&tree);
    let knob = Box::new(Grumbling(Attribute(file.clone())));
    let value = CACHE_OFF.to_owned();
    let undo = Undo { setting: Setting::WriteCache, knob, drive: None, value, note: None };
    assert!(restore("/dev/sdq", &undo).is_ok());
    assert_eq!(read(&file).as_deref(), Some(CACHE_OFF));
}
