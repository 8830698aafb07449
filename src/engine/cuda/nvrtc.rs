//! Compiling kernels at run time, with whichever NVRTC the machine has.
//!
//! # Invariants
//! - The library is found by name or path at run time; a machine without it gets an error that
//!   says where it was looked for.
//! - Compiled code is for one architecture, with no contraction of products and sums.
#![expect(
    unsafe_code,
    reason = "NVRTC's interface is C; this file checks every result and owns every buffer"
)]

use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Options of every compilation: no contraction, so that fusing changes no bit.
/// Unused functions are no news: every source begins with all of `kernels/`.
const OPTIONS: [&str; 4] = [
    "--fmad=false",
    "-default-device",
    "--std=c++17",
    "--diag-suppress=177",
];
/// Names under which the library is found, newest first.
const NAMES: [&str; 5] = [
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so",
    "/usr/lib/wsl/lib/libnvrtc.so",
];
const SUCCESS: c_int = 0;

/// Why kernels were not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CompileError {
    /// No library.
    #[error(
        "NVRTC was not found (looked for {tried}); install the CUDA toolkit's libnvrtc, or set LD_LIBRARY_PATH to its folder"
    )]
    Missing {
        /// Names looked for.
        tried: String,
    },
    /// A function is missing: not the library that its name says.
    #[error("{path} is not a usable NVRTC: {cause}")]
    Unusable {
        /// Which file.
        path: String,
        /// What is wrong.
        cause: String,
    },
    /// The compiler refused the source: a defect of ours.
    #[error("NVRTC {version} did not compile kernels for {arch}: {log}")]
    Source {
        /// NVRTC's version.
        version: String,
        /// Architecture.
        arch: String,
        /// Its words.
        log: String,
    },
}

type Program = *mut c_void;

/// A loaded NVRTC.
#[derive(Debug)]
pub(super) struct Nvrtc {
    library: Library,
    path: String,
    /// Major and minor version.
    pub version: (i32, i32),
}

impl Nvrtc {
    /// Finds the library by its usual names.
    pub(super) fn find() -> Result<Self, CompileError> {
        let found = NAMES
            .iter()
            .find_map(|name| Self::open(Path::new(name)).ok());
        found.ok_or_else(|| CompileError::Missing {
            tried: NAMES.join(", "),
        })
    }

    /// Loads the library at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, CompileError> {
        let text = path.display().to_string();
        let unusable = |error: libloading::Error| CompileError::Unusable {
            path: text.clone(),
            cause: error.to_string(),
        };
        preload_builtins(path);
        // SAFETY: NVRTC's initialisers have no preconditions.
        let library = unsafe { Library::new(path) }.map_err(unusable)?;
        let mut version = (0, 0);
        {
            // SAFETY: the signature is that of nvrtc.h.
            let ask: Symbol<'_, unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> =
                unsafe { library.get(b"nvrtcVersion") }.map_err(unusable)?;
            // SAFETY: the library writes two integers.
            unsafe { ask(&raw mut version.0, &raw mut version.1) };
        }
        Ok(Self {
            library,
            path: text,
            version,
        })
    }

    /// Compiles `source` for an architecture such as `sm_90`; returns the cubin and the log.
    pub(super) fn compile(
        &self,
        source: &str,
        arch: &str,
    ) -> Result<(Vec<u8>, String), CompileError> {
        let mut program: Program = std::ptr::null_mut();
        let text = CString::new(source).expect("kernels hold no NUL");
        let name = CString::new("hyperopt.cu").expect("no NUL");
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        let create: Symbol<'_, Create> = self.symbol(b"nvrtcCreateProgram")?;
        // SAFETY: strings end in NUL and live through the call; there are no headers.
        let code = unsafe {
            create(
                &raw mut program,
                text.as_ptr(),
                name.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        self.expect(code, arch, "nvrtcCreateProgram")?;
        let compiled = self.compile_program(program, arch);
        type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
        let destroy: Symbol<'_, Destroy> = self.symbol(b"nvrtcDestroyProgram")?;
        // SAFETY: created above, destroyed once.
        unsafe { destroy(&raw mut program) };
        compiled
    }

    fn compile_program(
        &self,
        program: Program,
        arch: &str,
    ) -> Result<(Vec<u8>, String), CompileError> {
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        let arch_option = format!("--gpu-architecture={arch}");
        let options: Vec<CString> = OPTIONS
            .iter()
            .copied()
            .chain([arch_option.as_str(), "--ptxas-options=-v"])
            .map(|option| CString::new(option).expect("no NUL"))
            .collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let compile: Symbol<'_, Compile> = self.symbol(b"nvrtcCompileProgram")?;
        let n_options = c_int::try_from(pointers.len()).expect("few options");
        // SAFETY: the program is alive, and so are the options.
        let code = unsafe { compile(program, n_options, pointers.as_ptr()) };
        let log = self.bytes(
            program,
            b"nvrtcGetProgramLogSize",
            b"nvrtcGetProgramLog",
            arch,
        )?;
        let log = CStr::from_bytes_until_nul(&log).map_or_else(
            |_| String::from_utf8_lossy(&log).into_owned(),
            |log| log.to_string_lossy().into_owned(),
        );
        if code != SUCCESS {
            return Err(self.refused(arch, log));
        }
        let cubin = self.bytes(program, b"nvrtcGetCUBINSize", b"nvrtcGetCUBIN", arch)?;
        Ok((cubin, log))
    }

    /// Reads a buffer of a program by the pair of functions that give its size and content.
    fn bytes(
        &self,
        program: Program,
        size: &'static [u8],
        get: &'static [u8],
        arch: &str,
    ) -> Result<Vec<u8>, CompileError> {
        type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
        type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
        let ask: Symbol<'_, Size> = self.symbol(size)?;
        let mut n = 0;
        // SAFETY: the program is alive; the library writes one size.
        let code = unsafe { ask(program, &raw mut n) };
        self.expect(code, arch, "asking for a size")?;
        let mut bytes = vec![0_u8; n];
        let read: Symbol<'_, Get> = self.symbol(get)?;
        // SAFETY: the buffer has the size that the library gave.
        let code = unsafe { read(program, bytes.as_mut_ptr().cast()) };
        self.expect(code, arch, "reading")?;
        Ok(bytes)
    }

    fn symbol<T>(&self, name: &'static [u8]) -> Result<Symbol<'_, T>, CompileError> {
        // SAFETY: callers give the signatures of nvrtc.h.
        unsafe { self.library.get(name) }.map_err(|error| CompileError::Unusable {
            path: self.path.clone(),
            cause: error.to_string(),
        })
    }

    fn expect(&self, code: c_int, arch: &str, what: &str) -> Result<(), CompileError> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(self.refused(arch, format!("{what} gave code {code}")))
    }

    fn refused(&self, arch: &str, log: String) -> CompileError {
        CompileError::Source {
            version: format!("{}.{}", self.version.0, self.version.1),
            arch: arch.to_owned(),
            log,
        }
    }
}

/// Loads the library of built-in functions that lies beside NVRTC, which a library loaded by path
/// would look for elsewhere. It stays loaded.
fn preload_builtins(path: &Path) {
    let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) else {
        return;
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let builtins = entries.map(|entry| entry.path()).filter(|path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so."))
    });
    for path in builtins {
        // SAFETY: the library holds data for NVRTC and has no initialisers with preconditions.
        if let Ok(library) = unsafe { Library::new(path) } {
            std::mem::forget(library);
        }
    }
}
