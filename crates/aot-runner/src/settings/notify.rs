//! Reads `[notify]`: who is told what a loop comes to.

use toml::de::{DeTable, DeValue};

use super::{Fault, File, Read};
use crate::notify::{NotifyEvent, Webhook};

impl File<'_> {
    pub(super) fn notify(&self, table: &DeTable<'_>, all: &mut Read) -> Result<(), Fault> {
        let notify = &mut all.settings.notify;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let wrong = |wanted: &str| self.fault(value.span(), format!("`notify.{name}` is {wanted}"));
            let is_on = |value: &DeValue<'_>| value.as_bool().ok_or_else(|| wrong("true or false"));
            let event = NotifyEvent::ALL.into_iter().find(|event| event.key() == name);
            match (name, event) {
                (_, Some(event)) => {
                    let command = value.get_ref().as_str().ok_or_else(|| wrong("a command, as a text"))?;
                    // An empty one takes away what the user's own file says.
                    match command.trim().is_empty() {
                        true => notify.commands.remove(&event),
                        false => notify.commands.insert(event, command.to_owned()),
                    };
                }
                ("webhook", None) => {
                    const WANTED: &str = "an address like \"https://example.org/hook\", or \"\" for none";
                    let text = value.get_ref().as_str().ok_or_else(|| wrong(WANTED))?;
                    notify.webhook = match text {
                        "" => None,
                        text => Some(Webhook::parse(text).ok_or_else(|| wrong(WANTED))?),
                    };
                }
                ("desktop", None) => notify.desktop = is_on(value.get_ref())?,
                ("bell", None) => notify.bell = is_on(value.get_ref())?,
                (other, None) => {
                    all.warnings.push(self.fault(key.span(), format!("`notify.{other}` is not known")));
                }
            }
        }
        Ok(())
    }
}
