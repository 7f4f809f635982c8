//! Git over SSH: one session with one channel, which runs `git-upload-pack` or, to push,
//! `git-receive-pack`.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};

use super::attempt::RemoteAttempt;
use super::ssh_host::SshError;
use super::ssh_refusal;
use super::ssh_session::{Login, SshSession};
use crate::error::FetchError;

/// Bytes kept of the server's standard error.
const MESSAGE_BYTES_MAX: usize = 2_048;

/// libgit2's SSH transport for one attempt.
pub struct SshTransport {
    attempt: Arc<RemoteAttempt>,
}

struct Conversation {
    attempt: Arc<RemoteAttempt>,
    /// For messages.
    host: String,
    output: Output,
    input: Arc<ChannelWriteHalf<Msg>>,
    has_answered: bool,
    session: SshSession,
}

/// What the program on the server writes.
struct Output {
    /// `None` while a step has it, and after the end.
    channel: Option<ChannelReadHalf>,
    /// The part that has arrived, and that libgit2 has not read.
    part: Bytes,
    /// The beginning of its standard error.
    message: Vec<u8>,
}

/// What ended one step of reading.
enum Arrived {
    Part(Bytes),
    /// The program has ended.
    End,
    /// The connection has ended, and the program not.
    Broken,
    /// The server does not run the program.
    Refused,
}

impl SshTransport {
    pub fn new(attempt: Arc<RemoteAttempt>) -> Self {
        Self { attempt }
    }

    fn open(&self, program: &str) -> Result<Conversation, FetchError> {
        let login = Login::of(&self.attempt)?;
        let session = login.open(&self.attempt)?;
        let host = login.shown();
        let command = format!("{program} {}", quoted(&login.path));
        let of = host.clone();
        let (session, channel) = self.attempt.wait(&host, async move {
            let opened = async {
                let channel = session.handle.channel_open_session().await?;
                channel.exec(true, command).await?;
                Ok::<_, russh::Error>(channel)
            };
            match opened.await {
                Ok(channel) => Ok((session, channel)),
                Err(_) if session.handle.is_closed() => Err(session.ending.error(&of)),
                Err(error) => Err(SshError::from(error).of(&of)),
            }
        })?;
        let (channel, input) = channel.split();
        Ok(Conversation {
            attempt: Arc::clone(&self.attempt),
            host,
            output: Output { channel: Some(channel), part: Bytes::new(), message: Vec::new() },
            input: Arc::new(input),
            has_answered: false,
            session,
        })
    }
}

impl SmartSubtransport for SshTransport {
    fn action(
        &self,
        _: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        // The listing and the transfer share one channel.
        let program = match service {
            Service::UploadPackLs => "git-upload-pack",
            Service::ReceivePackLs => "git-receive-pack",
            Service::UploadPack | Service::ReceivePack => {
                return Err(git2::Error::from_str("the SSH channel has already ended"));
            }
        };
        match self.open(program) {
            Ok(conversation) => Ok(Box::new(conversation)),
            Err(error) => Err(git2::Error::from_str(&self.attempt.fail(error).to_string())),
        }
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// The path quoted for the user's shell on the server, always and in the form that Git sends:
/// forges that run no shell compare the command with that form.
fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''").replace('!', r"'\!'"))
}

impl Output {
    /// Waits for more output.
    async fn arrive(&mut self) -> Arrived {
        let Some(channel) = &mut self.channel else { return Arrived::End };
        loop {
            match channel.wait().await {
                Some(ChannelMsg::Data { data }) if !data.is_empty() => return Arrived::Part(data),
                Some(ChannelMsg::ExtendedData { data, ext: 1 }) => {
                    let room = MESSAGE_BYTES_MAX.saturating_sub(self.message.len());
                    self.message.extend(data.iter().take(room));
                }
                Some(ChannelMsg::Failure) => return Arrived::Refused,
                Some(ChannelMsg::Close) => {
                    self.channel = None;
                    return Arrived::End;
                }
                // The standard error and the program's status may follow the output's end.
                Some(_) => {}
                None => return Arrived::Broken,
            }
        }
    }
}

impl Conversation {
    fn read_part(&mut self) -> Result<(), FetchError> {
        let empty = Output { channel: None, part: Bytes::new(), message: Vec::new() };
        let mut output = std::mem::replace(&mut self.output, empty);
        let (output, arrived) = self.attempt.wait(&self.host, async move {
            let arrived = output.arrive().await;
            Ok((output, arrived))
        })?;
        self.output = output;
        match arrived {
            Arrived::Part(part) => {
                self.output.part = part;
                self.has_answered = true;
                Ok(())
            }
            Arrived::End if self.has_answered => Ok(()),
            Arrived::End => Err(ssh_refusal::read(&self.output.message, self.attempt.url())),
            Arrived::Broken => Err(self.session.ending.error(&self.host)),
            Arrived::Refused => Err(FetchError::Ssh {
                host: self.host.clone(),
                problem: "the host does not run Git's program".to_owned(),
            }),
        }
    }

    fn write_part(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let (bytes, input) = (Bytes::copy_from_slice(bytes), Arc::clone(&self.input));
        let (ending, host) = (self.session.ending.clone(), self.host.clone());
        self.attempt.wait(&self.host, async move {
            input.data_bytes(bytes).await.map_err(|_| ending.error(&host))
        })
    }
}

impl Read for Conversation {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.output.part.is_empty() && !buffer.is_empty() {
            self.read_part().map_err(|error| self.attempt.fail(error))?;
        }
        let count = self.output.part.len().min(buffer.len());
        self.output.part.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

impl Write for Conversation {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_part(bytes).map_err(|error| self.attempt.fail(error))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_one_word_for_a_shell() {
        assert_eq!(quoted("/a b"), "'/a b'");
        assert_eq!(quoted("a'; rm -rf /'"), r"'a'\''; rm -rf /'\'''");
    }
}
