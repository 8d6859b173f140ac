//! Signatures of file systems, swap space, encryption, volume managers and partition tables on the medium itself:
//! somebody's data that is not in use at the moment.
//!
//! The signatures are those that libblkid of util-linux knows. Its tool `wipefs` is asked, since it lists every one with
//! its offset, damaged ones too (`blkid -p` stops at the first and refuses where two contradict), and is what removes
//! them when the owner agrees: what stops us and what `wipefs -a` removes are one list.
//!
//! Invariants: a target is free only when `wipefs` ran to its end and listed nothing; without the tool there is no
//! answer, and no answer is a refusal. It gets the open descriptor, not the path, so what it examines is what will be
//! written to. Nothing is written: without `--all` or `--offset` it opens for reading. A signature in a sector that
//! holds Skylight's own pattern does not count, so a target can be probed twice.
//!
//! Sources: wipefs(8), section OPTIONS; util-linux, `misc-utils/wipefs.c` and `libblkid/src/superblocks`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TOOL: &str = "wipefs";
/// Where distributions put it. They come before `PATH`, which the system folders are often not on.
const TOOL_FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// The descriptor that the tool gets as its standard input, as a path.
const OWN_INPUT: &str = "/proc/self/fd/0";

const OWN_PATTERN: &[u8] = b"SKYLIGHT";
const SECTOR_BYTES: usize = 512;
/// Direct I/O wants memory, offsets and sizes at such multiples; no drive has larger logical blocks.
const ALIGNMENT: usize = 4096;

/// A line of the tool's list.
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    offset: u64,
    /// What it is, in words.
    what: String,
}

/// What somebody's data on an open file or device is; none where nothing is.
///
/// # Errors
/// When the tool is missing or fails, or the target cannot be read: the text says which, and the mend.
pub fn find(target: &File) -> io::Result<Option<String>> {
    find_with(&tool()?, target)
}

fn find_with(tool: &Path, target: &File) -> io::Result<Option<String>> {
    for signature in listed(&list(tool, target)?)? {
        if !is_own(target, signature.offset)? {
            return Ok(Some(signature.what));
        }
    }
    Ok(None)
}

fn tool() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    tool_in(TOOL_FOLDERS.into_iter().map(PathBuf::from).chain(std::env::split_paths(&path)))
}

fn tool_in(folders: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
    let mut candidates = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(TOOL));
    candidates.find(|candidate| candidate.is_file()).ok_or_else(|| {
        let text = format!("{TOOL}, which recognises file systems, is not installed; install util-linux");
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// The tool's list of a target: `offset,type,usage`, a line a signature.
fn list(tool: &Path, target: &File) -> io::Result<String> {
    let output = Command::new(tool)
        .args(["--noheadings", "--parsable", "--output", "OFFSET,TYPE,USAGE", OWN_INPUT])
        // Its words are read, so they are not translated; nothing of the caller's steers what is looked for.
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::from(target.try_clone()?))
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{} does not run: {error}", tool.display())))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let first = words.lines().next().unwrap_or("no reason given");
        return Err(io::Error::other(format!("{TOOL} failed ({}): {first}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|_| not_understood(OsStr::new("bytes that are not UTF-8")))
}

fn listed(list: &str) -> io::Result<Vec<Signature>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parsed(line).ok_or_else(|| not_understood(OsStr::new(line)))).collect()
}

fn parsed(line: &str) -> Option<Signature> {
    let mut columns = line.split(',');
    let (offset, kind, usage) = (columns.next()?, columns.next()?, columns.next()?);
    let offset = u64::from_str_radix(offset.strip_prefix("0x")?, 16).ok()?;
    let usage = match usage {
        "filesystem" => "a file system",
        "partition-table" => "a partition table",
        "raid" => "a member of a RAID or volume group",
        "crypto" => "an encrypted volume",
        _ => "somebody's data",
    };
    let kind = if kind.is_empty() { "unnamed" } else { kind };
    Some(Signature { offset, what: format!("{usage} ({kind})") })
}

fn not_understood(what: &OsStr) -> io::Error {
    io::Error::other(format!(
        "{TOOL} listed {what:?}, which is not understood; install util-linux 2.31 or newer"
    ))
}

/// Whether the sector around an offset is one that an earlier probe wrote.
fn is_own(target: &File, offset: u64) -> io::Result<bool> {
    let mut buffer = vec![0; 2 * ALIGNMENT];
    let from = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let block = &mut buffer[from..from + ALIGNMENT];
    let start = offset / ALIGNMENT as u64 * ALIGNMENT as u64;
    // The last block of a target may be shorter; what was not read stays zero, which is not our pattern.
    target.read_at(block, start)?;
    let at = (offset - start) as usize / SECTOR_BYTES * SECTOR_BYTES;
    Ok(block[at..].starts_with(OWN_PATTERN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;

    const SIZE_BYTES: u64 = 64 << 20;
    const EXT2_AT: u64 = 1080;
    const EXT2_MAGIC: &[u8] = &[0x53, 0xef];

    fn image(tree: &Tree) -> io::Result<File> {
        let path = tree.file("disk.img", "");
        let file = File::options().read(true).write(true).open(path)?;
        file.set_len(SIZE_BYTES)?;
        Ok(file)
    }

    #[test]
    fn a_signature_counts_unless_a_probe_wrote_its_sector() -> io::Result<()> {
        let tree = Tree::new("signatures");
        let file = image(&tree)?;
        assert_eq!(find(&file)?, None);
        file.write_all_at(EXT2_MAGIC, EXT2_AT)?;
        assert_eq!(find(&file)?, Some("a file system (ext2)".into()));
        file.write_all_at(OWN_PATTERN, 1024)?;
        assert_eq!(find(&file)?, None, "what an earlier probe wrote is no file system");
        Ok(())
    }

    #[test]
    fn what_a_probe_did_not_write_counts_beside_what_it_did() -> io::Result<()> {
        let tree = Tree::new("beside");
        let file = image(&tree)?;
        file.write_all_at(EXT2_MAGIC, EXT2_AT)?;
        file.write_all_at(OWN_PATTERN, 1024)?;
        file.write_all_at(b"_BHRfS_M", 65_600)?;
        assert_eq!(find(&file)?, Some("a file system (btrfs)".into()));
        Ok(())
    }

    #[test]
    fn a_tool_that_is_missing_fails_or_babbles_is_no_answer() -> io::Result<()> {
        let tree = Tree::new("tools");
        let file = image(&tree)?;
        let missing = tool_in([tree.path("none"), PathBuf::from("relative")].into_iter());
        assert!(missing.is_err_and(|error| error.to_string().contains("install util-linux")));
        for (tool, part) in [
            ("/bin/false", "no reason given"),
            ("/bin/echo", "not understood"),
            ("/dev/null", "does not run"),
        ] {
            let line =
                find_with(Path::new(tool), &file).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(line.contains(part), "{line:?} does not say {part:?}");
            assert!(!line.contains('\n'), "{line:?}");
        }
        Ok(())
    }

    #[test]
    fn the_list_is_put_into_words() -> io::Result<()> {
        let list = "# offset,type,usage\n0x200,gpt,partition-table\n0x218,LVM2_member,raid\n0x0,crypto_LUKS,crypto\n\
                    0xff6,swap,other\n0x0,,\n";
        let words: Vec<_> = listed(list)?.into_iter().map(|signature| signature.what).collect();
        assert_eq!(
            words,
            [
                "a partition table (gpt)",
                "a member of a RAID or volume group (LVM2_member)",
                "an encrypted volume (crypto_LUKS)",
                "somebody's data (swap)",
                "somebody's data (unnamed)",
            ]
        );
        Ok(())
    }
}
