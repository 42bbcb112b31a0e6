//! Writes the figures of a run as CSV files.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use crate::load::Load;
use crate::{Extent, about};

/// The tables of a run, in `target/throughput`. Those of a test go to `target/throughput-test`, those of
/// some workloads to `target/throughput-part`, so that neither replaces a run.
pub struct Tables {
    times: BufWriter<File>,
    allocations: BufWriter<File>,
    echo: BufWriter<File>,
    folder: PathBuf,
}

/// An echo server under a load.
pub struct Echoed<'a> {
    pub flavor: &'a str,
    pub load: &'a str,
    pub way: &'a str,
}

const LOAD: &str = "workload,payload,dests,each,slots,metadata";

impl Tables {
    pub fn create(extent: Extent, all: bool) -> io::Result<Self> {
        let name = match extent {
            Extent::Test => "throughput-test",
            _ if all => "throughput",
            _ => "throughput-part",
        };
        let folder = target()?.join(name);
        fs::create_dir_all(&folder)?;
        let table = |name: &str, head: &str| {
            let mut table = BufWriter::new(File::create(folder.join(name))?);
            writeln!(table, "{head}").map(|()| table)
        };
        about::write(&folder, extent)?;
        Ok(Self {
            times: table("times.csv", &format!("{LOAD},way,round,cpu ns,wall ns"))?,
            allocations: table("allocations.csv", &format!("{LOAD},way,datagrams,allocations"))?,
            echo: table("echo.csv", "runtime,load,way,cpu ns,calls,low ratio,ratio,high ratio")?,
            folder,
        })
    }

    /// CPU time and elapsed time per datagram.
    pub fn time(&mut self, load: &Load, way: &str, round: usize, ns: [f64; 2]) -> io::Result<()> {
        let [cpu, wall] = ns;
        writeln!(self.times, "{},{way},{round},{cpu:.2},{wall:.2}", fields(load))
    }

    /// Allocations in the counted turns.
    pub fn allocated(&mut self, load: &Load, way: &str, allocations: usize) -> io::Result<()> {
        writeln!(self.allocations, "{},{way},{},{allocations}", fields(load), load.datagrams())
    }

    /// CPU time and system calls per datagram, and the quartiles of the ratios to the first way's time.
    pub fn echoed(
        &mut self,
        row: &Echoed<'_>,
        [ns, calls]: [f64; 2],
        [low, ratio, high]: [f64; 3],
    ) -> io::Result<()> {
        let Echoed { flavor, load, way } = row;
        writeln!(
            self.echo,
            "{flavor},{load},{way},{ns:.0},{calls:.2},{low:.3},{ratio:.3},{high:.3}"
        )
    }

    pub fn finish(&mut self) -> io::Result<()> {
        let Self { times, allocations, echo, .. } = self;
        for table in [times, allocations, echo] {
            table.flush()?;
        }
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        println!("tables are in {name}/ in the target folder");
        Ok(())
    }
}

fn fields(load: &Load) -> String {
    let Load { workload, payload, dests, each, slots, metadata, .. } = load;
    let meta = if *metadata { "meta" } else { "none" };
    format!("{workload},{payload},{dests},{each},{slots},{meta}")
}

/// Cargo's target folder, two levels above this program.
fn target() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let folder = program.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    Ok(folder.to_path_buf())
}
