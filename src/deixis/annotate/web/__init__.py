"""The web application of the workbench: sessions, questions and answers, review and management of a project."""
