//! The language from outside: tables of cases in `cases/`, and properties.
//!
//! A table is a text file of one case a line; see [`table`] for the words.

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod subject;
#[cfg(test)]
mod table;
