//! Rollouts on a real hub, with two real agents and many simulated ones, or with agents that the
//! test plays.

mod failure;
mod leaders;
mod preemption;
mod simulated_agents;
mod stage;
mod waves;
mod week;
