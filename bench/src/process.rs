//! Servers as child processes: started, pinned, watched and ended. Owns everything that asks the operating
//! system about a process; never talks to a server.

use crate::Result;
use std::{
    ffi::{OsStr, OsString},
    fs, io,
    mem::MaybeUninit,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

/// A server that was started here. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// When it was started.
    pub started: Instant,
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it will listen.
    pub address: SocketAddr,
    /// Takes what it prints.
    pub output: PathBuf,
    /// The one processor that it may use, or any.
    pub processor: Option<usize>,
}

impl Server {
    /// Starts a program without waiting for it.
    ///
    /// # Errors
    /// Those of the operating system, with the program's name.
    pub fn start(program: &Program) -> Result<Self> {
        let output = fs::File::options().create(true).append(true).open(&program.output)?;
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        if let Some(processor) = program.processor {
            // SAFETY: between fork and exec only sched_setaffinity(2) is called, which is a bare system call.
            unsafe { command.pre_exec(move || pin_to(processor)) };
        }
        let started = Instant::now();
        let child = command.spawn().map_err(|error| format!("{}: {error}", program.path.display()))?;
        Ok(Self { child, address: program.address, started })
    }

    /// Starts a program and waits until it listens.
    ///
    /// # Errors
    /// As [`start`](Self::start), and a server that ends or does not listen within 30 s.
    pub fn start_and_wait(program: &Program) -> Result<Self> {
        let mut server = Self::start(program)?;
        server.wait_until_listening(Duration::from_secs(30)).map_err(|error| {
            let output = fs::read_to_string(&program.output).unwrap_or_default();
            format!("{}: {error}; it printed:\n{output}", program.path.display())
        })?;
        Ok(server)
    }

    /// Tries to connect until it works, without rest: the moment is what the start-up suite measures.
    ///
    /// # Errors
    /// A server that ends, or that does not listen in time.
    pub fn wait_until_listening(&mut self, limit: Duration) -> Result<TcpStream> {
        loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => return Ok(stream),
                Err(_) if self.started.elapsed() > limit => {
                    return Err(format!("does not listen on {} after {limit:?}", self.address).into());
                }
                Err(_) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("ended with {status}").into());
            }
            sleep(Duration::from_micros(200));
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as kill -9 does, and waits for its end.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of 127.0.0.1 that was free a moment ago.
///
/// # Errors
/// Those of the operating system.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// The program of that name that was built together with this one.
///
/// # Errors
/// One that is not there, with the command that builds it.
pub fn sibling(name: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.exists() {
        return Ok(path);
    }
    Err(format!("{} is missing: cargo build --release -p {package}", path.display()).into())
}

/// The CPU time that a process has used so far with all its threads, ended ones included, in seconds.
///
/// # Errors
/// A process that is gone.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is to a local that outlives the call.
    let code = unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(pid)?, &raw mut clock) };
    if code != 0 {
        return Err(format!("process {pid}: {}", io::Error::from_raw_os_error(code)).into());
    }
    clock_seconds(clock)
}

/// The CPU time that the calling thread has used so far, in seconds.
///
/// # Errors
/// Those of the operating system.
pub fn thread_cpu_seconds() -> Result<f64> {
    clock_seconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_seconds(clock: libc::clockid_t) -> Result<f64> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is to a local that outlives the call, which fills it where it succeeds.
    let time = unsafe {
        if libc::clock_gettime(clock, time.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error().into());
        }
        time.assume_init()
    };
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// The memory that a process has resident, in bytes.
///
/// # Errors
/// A process that is gone.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// How many processors there are.
///
/// # Errors
/// Those of the operating system.
pub fn processors() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// Pins the calling thread, and what it starts, to one processor.
///
/// # Errors
/// Those of the operating system, such as for a processor that is not there.
pub fn pin_to(processor: usize) -> io::Result<()> {
    // SAFETY: cpu_set_t is plain bits, for which zero is a value; the pointer is to a local.
    let code = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the calling thread run only when nothing else wants the processor (SCHED_IDLE).
///
/// # Errors
/// Those of the operating system.
pub fn lowest_priority() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a local.
    let code = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Threads that keep every processor awake, at the lowest priority, until they are dropped: an idle one sleeps, and
/// waking it would be most of what is measured.
#[derive(Debug)]
pub struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// Starts one on each processor.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn start() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..processors()?)
            .map(|processor| {
                let stop = stop.clone();
                thread::spawn(move || {
                    // Where the priority cannot be lowered, a spinner would be in the way of what is measured.
                    if pin_to(processor).and_then(|()| lowest_priority()).is_ok() {
                        while !stop.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    }
                })
            })
            .collect();
        Ok(Self { stop, threads })
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a spinner does nothing that panics");
        }
    }
}

/// Writes to up to `limit` bytes of free memory and gives them back. In a virtual machine the first write to a page
/// makes the host find memory for it, which costs more than everything measured here; so it is done before.
///
/// # Errors
/// Those of the operating system.
pub fn touch_free_memory(limit: u64) -> Result<()> {
    const PAGE_BYTES: usize = 4096;
    let information = fs::read_to_string("/proc/meminfo")?;
    let line = information.lines().find_map(|line| line.strip_prefix("MemFree:")).ok_or("no MemFree")?;
    let free = line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024;
    // Half of what is free at the most, and of what a control group leaves: memory is not taken from others.
    let length = usize::try_from(limit.min(free / 2).min(control_group_allows() / 2))?;
    if length == 0 {
        return Ok(());
    }
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, of which one byte of each page is written, all within its length, and that is then removed.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().into());
        }
        for at in (0..length).step_by(PAGE_BYTES) {
            memory.cast::<u8>().add(at).write_volatile(1);
        }
        libc::munmap(memory, length);
    }
    Ok(())
}

/// The memory that the control group of this process may have, in bytes; without a limit, more than there is.
fn control_group_allows() -> u64 {
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    limit.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX)
}

/// A directory for one run, removed with all that is in it when dropped.
#[derive(Debug)]
pub struct WorkDirectory(PathBuf);

impl WorkDirectory {
    /// Makes one below `parent`.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn below(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("sillon-bench.{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// A path in it.
    pub fn join(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.join(Path::new(name.as_ref()))
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} is left behind: {error}", self.0.display());
        }
    }
}
