//! Lanes resident on the CPU: each has an arena of its own and runs whole epochs on one thread.

use super::commit;
use super::memory::Arena;
use super::step::{self, Ctx, Scratch};
use crate::engine::backend::{
    Backend, Data, Elapsed, EngineError, LaneIdx, Session, StateValues, Tables, bad_values,
};
use crate::engine::graph::DType;
use crate::engine::op::{StateId, TableId};
use crate::engine::plan::{ElementBytes, LowerOptions, Operand, PhasePlan, Plan, lower};
use crate::engine::program::{Init, Program, Section};
use crate::engine::real::Real;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The CPU as a device. Lanes spread over its threads; a lane's bits do not depend on how.
///
/// With `R = f32` the reference backend; with `R = f64` the oracle, which runs the definitions of
/// fused ops in double precision and rounds nothing.
#[derive(Debug, Clone, Copy)]
pub struct Cpu<R> {
    n_threads: NonZeroUsize,
    real: PhantomData<R>,
}

impl<R: Real> Cpu<R> {
    /// Uses up to `n_threads` threads.
    pub fn new(n_threads: NonZeroUsize) -> Self {
        Self {
            n_threads,
            real: PhantomData,
        }
    }
}

impl<R: Real> Backend for Cpu<R> {
    fn device(&self) -> String {
        "cpu".to_owned()
    }

    fn is_emulated(&self, dtype: DType) -> bool {
        dtype != DType::F32
    }

    fn lower(&self, program: &Program) -> Plan {
        let width = size_of::<R>();
        let elements = ElementBytes {
            f32: width,
            bf16: width,
        };
        let is_oracle = width == 8;
        lower(
            program,
            LowerOptions {
                elements,
                expand: is_oracle,
                fuse: !is_oracle,
                waves: false,
            },
        )
    }

    fn open(
        &self,
        plan: Arc<Plan>,
        tables: &Tables,
        n_lanes: usize,
    ) -> Result<Box<dyn Session>, EngineError> {
        let tables = load_tables::<R>(&plan, tables)?;
        let mut lanes = Vec::with_capacity(n_lanes);
        for _ in 0..n_lanes {
            let arena = Arena::new(plan.lane_bytes).ok_or_else(|| EngineError::OutOfMemory {
                device: self.device(),
                asked_bytes: (n_lanes * plan.lane_bytes) as u64,
                free_bytes: 0,
            })?;
            lanes.push(Lane {
                arena,
                scratch: Scratch::new(&plan),
                is_live: false,
            });
        }
        Ok(Box::new(CpuSession::<R> {
            plan,
            tables,
            lanes,
            n_threads: self.n_threads,
        }))
    }
}

/// Checks tables against their declarations; the oracle widens them once.
fn load_tables<R: Real>(plan: &Plan, tables: &Tables) -> Result<Vec<Arc<Data>>, EngineError> {
    let mut loaded = Vec::new();
    for (id, table) in (0u32..).zip(&plan.tables) {
        let data = tables.get(TableId(id));
        let n = table.shape.n_elements();
        let suits = |data: &&Arc<Data>| fits::<R>(data, table.dtype) && data.len() == n;
        let data = data
            .filter(suits)
            .ok_or_else(|| bad_values(&table.name, table.dtype, n, data.map(|d| &**d)))?;
        let widens = table.dtype.is_real() && size_of::<R>() == 8;
        loaded.push(if widens {
            Arc::new(Data::F64(data.to_f64()))
        } else {
            data.clone()
        });
    }
    Ok(loaded)
}

/// Whether the elements suit a tensor; the oracle also takes back the doubles that it gives out.
fn fits<R: Real>(data: &Data, dtype: DType) -> bool {
    let is_wide = matches!(data, Data::F64(_)) && size_of::<R>() == 8;
    data.fits(dtype) || (is_wide && dtype.is_real())
}

struct Lane<R> {
    arena: Arena,
    scratch: Scratch<R>,
    is_live: bool,
}

struct CpuSession<R> {
    plan: Arc<Plan>,
    tables: Vec<Arc<Data>>,
    lanes: Vec<Lane<R>>,
    n_threads: NonZeroUsize,
}

impl<R: Real> CpuSession<R> {
    /// Runs `work` on every live lane, lanes spread over threads.
    fn each_live(&mut self, work: impl Fn(&Ctx<'_>, &mut Lane<R>) + Sync) -> Elapsed {
        let started = Instant::now();
        let ctx = Ctx {
            plan: &self.plan,
            tables: &self.tables,
        };
        let n_live = self.lanes.iter().filter(|lane| lane.is_live).count();
        let queue = Mutex::new(self.lanes.iter_mut().filter(|lane| lane.is_live));
        let drain = || {
            loop {
                let lane = queue.lock().expect("no thread panics holding it").next();
                let Some(lane) = lane else { break };
                work(&ctx, lane);
            }
        };
        let n_threads = self.n_threads.get().min(n_live);
        if n_threads <= 1 {
            drain();
        } else {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(drain)).collect();
                for thread in threads {
                    if let Err(panic) = thread.join() {
                        // The payload says what went wrong; the scope's own panic would not.
                        std::panic::resume_unwind(panic);
                    }
                }
            });
        }
        let wall = started.elapsed();
        Elapsed { device: wall, wall }
    }

    fn write_elements(plan: &Plan, arena: &mut Arena, operand: &Operand, data: &Data) {
        let range = plan.range(operand).expect("states lie in the arena");
        let bytes = &mut arena.bytes_mut()[range];
        match data {
            Data::F32(values) => {
                let slots = bytemuck::cast_slice_mut::<u8, R>(bytes).iter_mut();
                slots
                    .zip(values)
                    .for_each(|(slot, value)| *slot = R::from_f64(f64::from(*value)));
            }
            Data::F64(values) if operand.dtype.is_real() => {
                let slots = bytemuck::cast_slice_mut::<u8, R>(bytes).iter_mut();
                slots
                    .zip(values)
                    .for_each(|(slot, value)| *slot = R::from_f64(*value));
            }
            Data::F64(values) => bytemuck::cast_slice_mut(bytes).copy_from_slice(values),
            Data::I32(values) => bytemuck::cast_slice_mut(bytes).copy_from_slice(values),
        }
    }

    fn check(&self, state: StateId, data: Option<&Data>) -> Result<(), EngineError> {
        let declared = &self.plan.states[state.0 as usize];
        let n = declared.shape.n_elements();
        match data {
            Some(data) if fits::<R>(data, declared.dtype) && data.len() == n => Ok(()),
            other => Err(bad_values(&declared.name, declared.dtype, n, other)),
        }
    }
}

fn run_section<R: Real>(ctx: &Ctx<'_>, lane: &mut Lane<R>, section: Section) {
    for phase in ctx.plan.section(section) {
        run_phase(ctx, lane, phase, phase.repeats);
    }
}

fn run_phase<R: Real>(ctx: &Ctx<'_>, lane: &mut Lane<R>, phase: &PhasePlan, n: usize) {
    for _ in 0..n {
        for step in &phase.steps {
            step::run(ctx, &mut lane.arena, &mut lane.scratch, step);
        }
        for commit in &phase.commits {
            commit::run::<R>(ctx, &mut lane.arena, commit);
        }
    }
}

impl<R: Real> Session for CpuSession<R> {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn load(&mut self, lane: LaneIdx, values: &StateValues) -> Result<(), EngineError> {
        for (id, state) in (0u32..).zip(&self.plan.states) {
            let given = values.get(&StateId(id));
            if state.init == Init::Host || given.is_some() {
                self.check(StateId(id), given)?;
            }
        }
        let plan = self.plan.clone();
        let lane = &mut self.lanes[lane.0];
        // All ones are NaN in every float type: a read before the first write shows at once.
        lane.arena.bytes_mut()[plan.persistent_bytes..].fill(0xFF);
        lane.arena.bytes_mut()[..plan.persistent_bytes].fill(0);
        for (operand, elements) in &plan.constants {
            let data = data_of(operand.dtype, elements);
            Self::write_elements(&plan, &mut lane.arena, operand, &data);
        }
        for (id, state) in (0u32..).zip(&plan.states) {
            let operand = plan.state(StateId(id));
            match (values.get(&StateId(id)), state.init) {
                (Some(data), _) => Self::write_elements(&plan, &mut lane.arena, operand, data),
                (None, Init::Fill(bits)) => {
                    let elements = vec![f64::from_bits(bits); operand.n()];
                    let data = data_of(operand.dtype, &elements);
                    Self::write_elements(&plan, &mut lane.arena, operand, &data);
                }
                (None, Init::Zero | Init::Host) => {}
            }
        }
        let ctx = Ctx {
            plan: &plan,
            tables: &self.tables,
        };
        run_section(&ctx, lane, Section::Init);
        Ok(())
    }

    fn set_live(&mut self, lane: LaneIdx, is_live: bool) {
        self.lanes[lane.0].is_live = is_live;
    }

    fn train(&mut self, n_cycles: usize) -> Result<Elapsed, EngineError> {
        Ok(self.each_live(|ctx, lane| {
            run_section(ctx, lane, Section::Begin);
            for _ in 0..n_cycles {
                run_section(ctx, lane, Section::Cycle);
            }
        }))
    }

    fn repeat(&mut self, section: Section, phase: usize, n: usize) -> Result<Elapsed, EngineError> {
        Ok(self.each_live(|ctx, lane| run_phase(ctx, lane, &ctx.plan.section(section)[phase], n)))
    }

    fn evaluate(&mut self) -> Result<Elapsed, EngineError> {
        Ok(self.each_live(|ctx, lane| run_section(ctx, lane, Section::Evaluate)))
    }

    fn read(&self, lane: LaneIdx, state: StateId) -> Result<Data, EngineError> {
        let operand = self.plan.state(state);
        let range = self.plan.range(operand).expect("states lie in the arena");
        let bytes = &self.lanes[lane.0].arena.bytes()[range];
        Ok(match operand.dtype {
            DType::F32 | DType::Tf32 | DType::Bf16 => {
                let values: &[R] = bytemuck::cast_slice(bytes);
                if size_of::<R>() == 8 {
                    Data::F64(values.iter().map(|value| value.to_f64()).collect())
                } else {
                    Data::F32(values.iter().map(|value| value.to_f64() as f32).collect())
                }
            }
            DType::F64 => Data::F64(bytemuck::cast_slice(bytes).to_vec()),
            DType::I32 => Data::I32(bytemuck::cast_slice(bytes).to_vec()),
        })
    }

    fn write(&mut self, lane: LaneIdx, state: StateId, data: &Data) -> Result<(), EngineError> {
        self.check(state, Some(data))?;
        let plan = self.plan.clone();
        Self::write_elements(
            &plan,
            &mut self.lanes[lane.0].arena,
            plan.state(state),
            data,
        );
        Ok(())
    }
}

/// Elements of a constant; the real family stays in f64 until it is written, so that the oracle
/// rounds nothing.
fn data_of(dtype: DType, elements: &[f64]) -> Data {
    match dtype {
        DType::F32 | DType::Tf32 | DType::Bf16 | DType::F64 => Data::F64(elements.to_vec()),
        DType::I32 => Data::I32(elements.iter().map(|value| *value as i32).collect()),
    }
}
